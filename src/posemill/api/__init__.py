"""What `import posemill` offers as functions: the commands call them too, and print."""
