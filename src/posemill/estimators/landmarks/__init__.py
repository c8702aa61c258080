"""What MediaPipe's legacy graphs have in common: crops, detections, and the landmarks of parts."""
