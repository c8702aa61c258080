"""Every figure of docs/all_benchmarks.md: a new one is one more `Figure` here, and no other place.

A `Benchmark` is a module of this folder and the arguments of its short form; it prints a JSON
object of `measuring.Measured` by key. A `Figure` is one key of it, and a row of a table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """A module below `benchmarks`, the arguments of its short form, the packages it imports."""

    module: str
    arguments: str = ""
    needs: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that measures it, as one would type it."""
        return f"python -m benchmarks.{self.module} {self.arguments}".strip()


@dataclass(frozen=True)
class Figure:
    """One number that a benchmark prints, where it is shown and what is wanted of it."""

    section: str
    what: str
    benchmark: Benchmark
    key: str
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    digits: int = 2

    @property
    def name(self) -> str:
        """What `--only` takes and the results are kept by: `against_stock.image_ratio`."""
        return f"{self.benchmark.module.rpartition('.')[2]}{self._layout}.{self.key}"

    @property
    def _layout(self) -> str:
        """The same benchmark with other arguments must have another name."""
        words = self.benchmark.arguments.split()
        told = [words[words.index(f) + 1] for f in ("--layout", "--videos") if f in words]
        return "".join(f"_{value}" for value in told)

    @property
    def wanted(self) -> str:
        """The goal in words; empty where there is none."""
        if self.at_least is not None:
            return f"{self.at_least:g}{self.unit} or more"
        return "" if self.at_most is None else f"{self.at_most:g}{self.unit} or less"

    def holds(self, value: float) -> bool | None:
        """Return whether a value is as wanted; None without a goal."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most

    def show(self, value: float) -> str:
        """Return a value with its unit."""
        return f"{value:.{self.digits}f}{self.unit}"


STOCK = Benchmark("keypoints.against_stock", "--rounds 3 --most 40")
OUTSIDE = Benchmark("keypoints.outside_networks", "--frames 6")
RUNTIMES = Benchmark("keypoints.runtimes", "--rounds 15", ("openvino", "onnxruntime"))
RTMLIB = Benchmark("keypoints.against_rtmlib", "--rounds 5", ("rtmlib", "onnxruntime"))
PARITY = Benchmark("keypoints.parity", "", ("openvino", "onnxruntime"))
PEOPLE = Benchmark("keypoints.coco_people", "", ("pycocotools", "onnxruntime"))
VIDEO_PEOPLE = Benchmark(
    "keypoints.people_in_video", "--people-from movenet --memory-frames 600", ("onnxruntime",)
)
SCALING = Benchmark("datasets.extract_scaling", "--frames 768 --rounds 2")
DECODERS = Benchmark("datasets.decoders", "--rounds 5")
SPARSE_DECODERS = Benchmark(
    "datasets.decoders", "--against torchcodec decord --rounds 7", ("torchcodec", "decord")
)
FRAMES = Benchmark("datasets.frames", "--clips 24 --rounds 3")
COMMON = Benchmark("datasets.extract_against_common", "--copies 4 --rounds 2 --pictures 40")
OPENPOSE = Benchmark("keypoints.openpose_decoder", "--rounds 9")
OPENPOSE_LOOP = Benchmark("datasets.openpose_against_loop", "--pictures 72 --rounds 2")
TASKS = Benchmark("datasets.many_tasks", "--tasks 10000")
PREPARE_143 = Benchmark("datasets.prepare", "--layout 143 --frames 200000 --rounds 3")
PREPARE_543 = Benchmark("datasets.prepare", "--layout 543 --frames 200000 --rounds 3")
FAULTS = Benchmark("datasets.faults", "--kills 100 --damaged 40")
SCALE = Benchmark("scale", "--workers 1000 --frames 10000000")
STORAGE_FAULTS = Benchmark("datasets.place_faults", "--kills 20", ("moto", "obstore"))
TWO_NODES = Benchmark("datasets.two_nodes", "--kills 2 --rounds 1", needs=("ray",))
STATUS = Benchmark("commands.status_speed", "--rounds 5")
LOOKING = Benchmark("commands.looking", "--report-frames 100000")
WEB = Benchmark("commands.web", "--no-measuring")
START_UP = Benchmark("commands.start_up", "--rounds 7")
LOOPS = Benchmark(
    "training.train_throughput", "--rounds 5 --count 64", ("accelerate", "lightning_fabric")
)
MODES = Benchmark("training.train_modes", "--rounds 2 --steps 24")
SWEEP = Benchmark("training.sweep_parallel", "--rounds 2 --epochs 4")
TRAIN_START = Benchmark("training.train_start", "--frames 100000")
VIDEO_LOADING = Benchmark("training.video_loading", "--rounds 3")
SHIFT = Benchmark("training.shift", "--rounds 20")
TUNE = Benchmark("training.tune", "--seconds 60 --rounds 3")
USUAL_SCRIPT = Benchmark("training.usual_script", "--rounds 3", ("lightning_fabric",))
USUAL_SCRIPT_288 = Benchmark(
    "training.usual_script", "--rounds 3 --videos sign_videos6", ("lightning_fabric",)
)


def _stock_figures() -> list[Figure]:
    rows = []
    for mode, goal in (("image", 1.15), ("video", 1.25)):
        what = f"{mode} mode, CPU time of stock / ours"
        rows.append(Figure("keypoints", what, STOCK, f"{mode}_ratio", at_least=goal))
    for mode in ("image", "video"):
        for lanes, how in ((1, "one by one"), (8, "eight side by side")):
            what = f"share of our time inside the networks, {mode} mode, frames {how}"
            rows.append(Figure("keypoints", what, STOCK, f"{mode}_share_by_{lanes}", at_least=0.9))
    rows.append(Figure("keypoints", "peak memory of a process, video mode", STOCK, "peak_mb",
                       at_most=250, unit=" MB", digits=0))  # fmt: skip
    for mode in ("image", "video"):
        what = f"instructions of a frame outside of the networks, {mode} mode"
        rows.append(Figure("keypoints", what, OUTSIDE, mode, unit=" million", digits=1))
    for mode in ("image", "video"):
        for runtime in ("litert", "onnxruntime", "openvino"):
            what = f"the networks of a frame, {mode} mode, on {runtime}"
            key = f"{mode}_{runtime}_ms"
            rows.append(Figure("keypoints", what, RUNTIMES, key, unit=" ms", digits=1))
    return rows


def _rtmlib_figures() -> list[Figure]:
    rows = []
    for key, how in (("bare", "next to nothing to compute"), ("usual", "more to compute")):
        what = f"`wholebody`, networks with {how}: CPU time of rtmlib / ours"
        rows.append(Figure("keypoints", what, RTMLIB, f"{key}_cpu", at_least=1.0))
    rows.append(Figure("keypoints", "its points and rtmlib's, largest distance", RTMLIB,
                       "usual_distance", at_most=0.001, unit=" px", digits=5))  # fmt: skip
    rows.append(Figure("keypoints", "its two workers / one worker", RTMLIB, "two_of_one",
                       at_least=1.8))  # fmt: skip
    rows.append(Figure("keypoints", "CPU time of a picture, one worker / two", RTMLIB,
                       "two_of_one_by_cpu"))  # fmt: skip
    return rows


def _distance_figures() -> list[Figure]:
    """Medians in pixels; the wanted ones are for what is used without being asked for."""
    parts = {"demo": ("pose", "face"), "jumper": ("pose", "left_hand", "right_hand")}
    names = {
        "litert": "ours",
        "onnxruntime": "ours on ONNX Runtime",
        "openvino": "ours on OpenVINO (only here)",
        "noise": "stock itself after noise",
    }
    return [
        Figure("distance", f"{clip}, {mode} mode, {part.replace('_', ' ')}: {name}", PARITY,
               f"{clip}_{mode}_{who}_{part}", unit=" px", digits=3,
               at_most={"image": 0.1, "video": 0.6}[mode] if who == "litert" else None)
        for clip in parts for part in parts[clip]
        for mode in ("image", "video") for who, name in names.items()
    ]  # fmt: skip


def _people_figures() -> list[Figure]:
    """AP of pycocotools on 40 pictures of COCO, and what it costs."""
    arms = {
        "openpose": ("`openpose`", 0.28),
        "openpose_two_scales": ("`openpose`, `second_scale=true`", 0.28),
        "movenet_thunder": ("`movenet`", 0.47),
        "movenet_lightning": ("`movenet`, `network=lightning`", 0.39),
        "holistic": ("`holistic`, one person a picture", None),
        "holistic_all": ("`holistic`, `people=all`", None),
        "holistic_all_movenet": ("`holistic`, `people=all people_from=movenet`", 0.28),
    }
    rows = []
    for arm, (name, goal) in arms.items():
        rows.append(Figure("people", f"{name}: AP", PEOPLE, f"{arm}_ap", at_least=goal, digits=3))
        rows.append(Figure("people", "AP at 0.5", PEOPLE, f"{arm}_ap_50", digits=3))
        rows.append(Figure("people", "CPU time of a picture", PEOPLE, f"{arm}_milliseconds",
                           unit=" ms", digits=0))  # fmt: skip
        if arm in ("openpose", "movenet_thunder", "movenet_lightning"):
            what = "what is around the networks, as a share of their time"
            most = 0.15 if arm == "openpose" else None
            rows.append(Figure("people", what, PEOPLE, f"{arm}_around_network", at_most=most))
    return rows


def _video_people_figures() -> list[Figure]:
    rows = []
    for name, words in (("two", "two clips"), ("three", "three clips")):
        what = f"`holistic people=all`, {words} side by side: parts found as in the clip alone"
        rows += [
            Figure("people", what, VIDEO_PEOPLE, f"{name}_agree", at_least=0.97, digits=3),
            Figure("people", "median distance of the landmarks", VIDEO_PEOPLE, f"{name}_median",
                   at_most=1.0, unit=" px"),
            Figure("people", "changes of an id", VIDEO_PEOPLE, f"{name}_switches", at_most=0,
                   digits=0),
        ]  # fmt: skip
    rows += [
        Figure("people", "two who walk through each other: changes of an id", VIDEO_PEOPLE,
               "crossing_switches", at_most=1, digits=0),
        Figure("people", "people found of 40 in a picture", VIDEO_PEOPLE, "crowd_of_40", digits=0),
        Figure("people", "frames with somebody after all have left", VIDEO_PEOPLE, "ghost_frames",
               at_most=25, digits=0),
        Figure("people", "CPU time of one of three people / of one alone", VIDEO_PEOPLE,
               "time_of_person", at_most=1.1),
        Figure("people", "growth of memory while people come and go", VIDEO_PEOPLE, "memory_mb",
               at_most=20, unit=" MB", digits=1),
    ]  # fmt: skip
    return rows


def _decoder_figures() -> list[Figure]:
    """Ratios of CPU time at one thread."""
    rows = []
    sizes = {"340": "340 x 256", "720": "1280 x 720"}
    others = {"opencv": "OpenCV reading all", "torchcodec": "torchcodec", "decord": "decord2"}
    for other, name in others.items():
        benchmark = DECODERS if other == "opencv" else SPARSE_DECODERS
        for size in sizes:
            for group, goal in ((12, 4.0), (250, 1.6)):
                for visit, which in (("first", "first visit"), ("kept", "index kept")):
                    what = f"8 frames, {sizes[size]}, key frame every {group}, {which}: {name}"
                    rows.append(Figure("decoding", what, benchmark,
                                       f"sparse_{size}_{group}_{visit}_{other}",
                                       at_least=goal if other == "opencv" else 1.0))  # fmt: skip
    for codec, kind, goals in (
        ("h264", "H.264 in an MP4", (1.2, 1.0)), ("mpeg4", "MPEG-4 in an AVI", (None, None)),
    ):  # fmt: skip
        for size, least in zip(sizes, goals, strict=True):
            what = f"every frame, {sizes[size]}, {kind}: OpenCV"
            rows.append(Figure("decoding", what, DECODERS, f"{codec}_{size}_all_opencv",
                               at_least=least))  # fmt: skip
            what = "OpenCV / decoding alone, without pixels: no reader on FFmpeg passes it"
            rows.append(Figure("decoding", what, DECODERS, f"{codec}_{size}_bound_opencv"))
    return rows


def _scale_figures() -> list[Figure]:
    """The simulation: the real coordinator, records and ledger, made-up workers."""
    rows = [
        ("1,000 simulated workers, 10 million frames: coordinator, CPU time of a task",
         "coordinator_ms", 1.0, " ms", 2),
        ("its share of a core", "coordinator_busy", None, " %", 1),
        ("its peak memory", "peak_mb", None, " MB", 0),
        ("the ledger", "ledger_mb", None, " MB", 1),
        ("all records", "records_mb", None, " MB", 1),
        ("till the first task of a new run", "begin_seconds", None, " s", 1),
        ("till the first task on another machine, half being done", "resume_seconds", None, " s",
         1),
        ("the ledger built from the records", "rebuild_seconds", None, " s", 1),
        ("idle share of all workers because the others still work", "idle_at_the_end", None, " %",
         1),
        ("idle share because the coordinator does", "idle_before", None, " %", 2),
    ]  # fmt: skip
    return [Figure("datasets", what, SCALE, key, at_most=most, unit=unit, digits=digits)
            for what, key, most, unit, digits in rows]  # fmt: skip


FIGURES = [
    *_stock_figures(),
    *_rtmlib_figures(),
    *_distance_figures(),
    *_people_figures(),
    *_video_people_figures(),
    *_decoder_figures(),
    Figure("keypoints", "openpose, around the network / in it, CPU time, one person", OPENPOSE,
           "one_around", at_most=0.15, digits=3),
    Figure("keypoints", "the same with ten people", OPENPOSE, "ten_around", at_most=0.15,
           digits=3),
    Figure("datasets", "one worker / bare engine, frames per second", SCALING, "one_of_bare",
           at_least=0.93),
    Figure("datasets", "the same by CPU time", SCALING, "one_of_bare_by_cpu"),
    Figure("datasets", "two workers / one worker", SCALING, "two_of_one", at_least=1.85),
    Figure("datasets", "CPU time of a frame, one worker / two", SCALING, "two_of_one_by_cpu"),
    Figure("datasets", "`posemill frames`, two workers / one worker", FRAMES, "two_of_one",
           at_least=1.85),
    Figure("datasets", "the same by CPU time of a frame, one worker / two", FRAMES,
           "two_of_one_by_cpu"),
    Figure("datasets", "8 frames of a clip of 10 s: CPU time of its video / of its jpg", FRAMES,
           "jpg", at_least=15, digits=1),
    Figure("datasets", "the same of its video / of its pack", FRAMES, "pack", at_least=40,
           digits=0),
    Figure("datasets", "the same brought to 112 x 112 on the way: video / jpg", FRAMES, "jpg_112",
           digits=1),
    Figure("datasets", "the same: video / pack", FRAMES, "pack_112", digits=0),
    Figure("datasets", "a detector built per image in a pool / ours, wall time", COMMON,
           "common_wall", at_least=4),
    Figure("datasets", "the same by CPU time", COMMON, "common_cpu"),
    Figure("datasets", "pose-format's `videos_to_poses` / ours, wall time", COMMON,
           "pose_format_wall", at_least=1.2),
    Figure("datasets", "the same by CPU time", COMMON, "pose_format_cpu"),
    Figure("datasets", "openpose, detector built per picture in a pool / ours, wall time",
           OPENPOSE_LOOP, "wall", at_least=4),
    Figure("datasets", "the same by CPU time", OPENPOSE_LOOP, "cpu"),
    *(Figure("datasets", f"the same with `runtime={name}`{how}", OPENPOSE_LOOP, f"{key}_{name}")
      for name in ("onnxruntime", "openvino")
      for key, how in (("wall", ""), ("cpu", " by CPU time"))),
    Figure("datasets", "share of the network, the same in both, of that loop's CPU time",
           OPENPOSE_LOOP, "network_share"),
    Figure("datasets", "coordinator, CPU time of a task", TASKS, "coordinator_ms", at_most=1,
           unit=" ms"),
    Figure("datasets", "growth of its memory from the first task to the last", TASKS,
           "memory_growth_mb", unit=" MB", digits=0),
    *_scale_figures(),
    Figure("datasets", "SIGKILLs of coordinators at random moments", FAULTS, "kills", digits=0),
    Figure("datasets", "runs that differ after them from an unbroken one", FAULTS,
           "killed_runs_that_differ", at_most=0, digits=0),
    Figure("datasets", "damaged videos", FAULTS, "damaged_videos", digits=0),
    Figure("datasets", "those that lost frames without a reason", FAULTS,
           "missing_without_a_reason", at_most=0, digits=0),
    Figure("datasets", "SIGKILLs on an S3 server that fails", STORAGE_FAULTS, "kills_on_storage",
           digits=0),
    Figure("datasets", "runs that differ after them from one of a disk", STORAGE_FAULTS,
           "killed_runs_on_storage_that_differ", at_most=0, digits=0),
    Figure("datasets", "records that a coordinator wrote which had been overtaken", STORAGE_FAULTS,
           "late_records_on_storage", at_most=0, digits=0),
    Figure("datasets", "two Ray nodes: runs that differ from a local one", TWO_NODES,
           "whole_differs", at_most=0, digits=0),
    Figure("datasets", "the same after a node was killed at a random moment", TWO_NODES,
           "node_differs", at_most=0, digits=0),
    Figure("datasets", "the same after the driver was killed and began again", TWO_NODES,
           "driver_differs", at_most=0, digits=0),
    Figure("datasets", "two Ray nodes against two local processes, wall time more", TWO_NODES,
           "overhead_percent", at_most=8, unit=" %", digits=1),
    Figure("datasets", "`posemill status`, a million frames", STATUS, "wall_seconds", at_most=1,
           unit=" s"),
    Figure("input", "`prepare` of 143 points, speed / numpy's of the same bytes", PREPARE_143,
           "speed_of_numpy", at_least=0.33),
    Figure("input", "the same by CPU time", PREPARE_143, "speed_of_numpy_by_cpu"),
    Figure("input", "its peak memory", PREPARE_143, "peak_mb", at_most=1500, unit=" MB", digits=0),
    Figure("input", "`prepare` of 543 points, speed / numpy's of the same bytes", PREPARE_543,
           "speed_of_numpy", at_least=0.33),
    Figure("input", "the same by CPU time", PREPARE_543, "speed_of_numpy_by_cpu"),
    Figure("input", "its peak memory", PREPARE_543, "peak_mb", at_most=1500, unit=" MB", digits=0),
    Figure("input", "`view`, a million frames, CPU time", LOOKING, "view_seconds", at_most=2,
           unit=" s"),
    Figure("input", "its peak memory", LOOKING, "view_peak_mb", at_most=150, unit=" MB", digits=0),
    Figure("input", "`report`, 100,000 frames, CPU time", LOOKING, "report_seconds", unit=" s"),
    Figure("input", "its peak memory", LOOKING, "report_peak_mb", unit=" MB", digits=0),
    Figure("input", "its page", LOOKING, "page_mb", unit=" MB", digits=1),
    Figure("training", "our loop / a plain PyTorch loop, samples per second", LOOPS, "plain",
           at_least=2),
    Figure("training", "our loop / Lightning Fabric", LOOPS, "fabric", at_least=1.0),
    Figure("training", "instructions of Fabric / ours, next to nothing to compute", LOOPS,
           "fabric_instructions", at_least=1.0),
    Figure("training", "our loop / Accelerate", LOOPS, "accelerate", at_least=1.0),
    Figure("training", "instructions of Accelerate / ours, the same", LOOPS,
           "accelerate_instructions", at_least=1.0),
    Figure("training", "two processes / one process with one thread", MODES, "processes_of_one",
           at_least=1.6),
    Figure("training", "`auto` / the best mode", MODES, "auto_of_best", at_least=0.9),
    Figure("training", "two sweep jobs side by side / one after the other, wall time", SWEEP,
           "two_of_one", at_most=0.6),
    Figure("training", "a start reads of a large npz it has seen, share of the file", TRAIN_START,
           "share_read", at_most=0.1, digits=4),
    Figure("training", "CPU time of that, model and data", TRAIN_START, "cpu_seconds", unit=" s"),
    Figure("training", "batches of 8 x 8 x 112² from packed frames, one loader process: share of "
           "the step of a small network that it waits", VIDEO_LOADING, "wait", at_most=5,
           unit=" %", digits=1),
    Figure("training", "CPU time of a clip from a video / from JPEGs of `posemill frames`",
           VIDEO_LOADING, "jpeg"),
    Figure("training", "the same / packed by `posemill frames --pack`", VIDEO_LOADING, "packed"),
    Figure("training", "the same on sign_videos6: video / JPEGs", VIDEO_LOADING, "signs_jpeg"),
    Figure("training", "the same: video / packed", VIDEO_LOADING, "signs_packed"),
    Figure("training", "signs48 after `posemill tune` / before, samples per second", TUNE,
           "keypoints", at_least=1.0),
    Figure("training", "gestures5 from videos (120 px), the same", TUNE, "video", at_least=1.5),
    Figure("training", "the same with `--keep-maths`", TUNE, "video_kept_maths", at_least=1.0),
    Figure("training", "sign_videos6 from videos (288 px), the same", TUNE, "video_288",
           at_least=1.5),
    Figure("training", "the same with `--keep-maths`", TUNE, "video_288_kept_maths",
           at_least=1.0),
    Figure("training", "`tsm` from videos of 120 pixels: CPU time of the usual script / ours "
           "tuned, one thread",
           USUAL_SCRIPT, "usual", at_least=2),
    Figure("training", "the same, ours in fp32", USUAL_SCRIPT, "usual_fp32"),
    Figure("training", "the same by wall time on all cores, ours one process a core",
           USUAL_SCRIPT, "usual_cores"),
    Figure("training", "the usual script / ours tuned, videos of 288 pixels, CPU time",
           USUAL_SCRIPT_288, "usual", at_least=2),
    Figure("training", "the same by wall time on all cores", USUAL_SCRIPT_288, "usual_cores"),
    Figure("training", "`tsm`: our loop / Lightning Fabric on the same batches", USUAL_SCRIPT,
           "fabric", at_least=1.0),
    Figure("training", "the same, videos of 288 pixels", USUAL_SCRIPT_288, "fabric", at_least=1.0),
    Figure("training", "`tsm`: share that waits for packed frames, one loader process",
           USUAL_SCRIPT, "wait_packed", at_most=5, unit=" %", digits=1),
    Figure("training", "the same, for JPEGs", USUAL_SCRIPT, "wait_jpeg", at_most=10, unit=" %",
           digits=1),
    Figure("training", "open files that 10,000 opens of videos leave", VIDEO_LOADING, "handles",
           at_most=0, digits=0),
    Figure("training", "growth of memory over them", VIDEO_LOADING, "memory", at_most=5,
           unit=" %", digits=1),
    Figure("training", "temporal shift, forward and backward: pad + cat / ours, 256 x 16 x 32²",
           SHIFT, "small", at_least=3),
    Figure("training", "the same, 512 x 64 x 28²", SHIFT, "large", at_least=3),
    Figure("training", "the same, channels-last", SHIFT, "channels_last", at_least=3),
    Figure("training", "the same, where pad sees only the channels that move / ours", SHIFT,
           "large_sliced_first"),
    Figure("training", "bytes that pad + cat allocates / ours", SHIFT, "large_memory",
           at_least=1),
    Figure("input", "`serve`: from its start to the list of runs in the browser, wall time", WEB,
           "first_page_seconds", at_most=1, unit=" s"),
    Figure("input", "the same, CPU time", WEB, "first_page_cpu_seconds", unit=" s"),
    Figure("input", "a page of its table of clips, a million frames, CPU time of the server", WEB,
           "page_cpu_seconds", at_most=0.3, unit=" s"),
    Figure("input", "1,000 requests, 100 at a time", WEB, "thousand_seconds", unit=" s", digits=1),
    Figure("input", "its peak memory, after them", WEB, "peak_mb", at_most=150, unit=" MB",
           digits=0),
    Figure("start-up", "`import posemill`, CPU time", START_UP, "import_seconds", at_most=0.2,
           unit=" s"),
    Figure("start-up", "the same in instructions", START_UP, "import_instructions",
           unit=" million", digits=0),
    Figure("start-up", "`posemill --help`, CPU time", START_UP, "help_seconds", at_most=0.4,
           unit=" s"),
    Figure("start-up", "the same in instructions", START_UP, "help_instructions",
           unit=" million", digits=0),
]  # fmt: skip

# What docs/benchmarks.md shows: the name of a figure, and what it is without the row above it.
HEADLINES = {
    "against_stock.image_ratio": "Holistic on pictures: CPU time of stock MediaPipe / ours",
    "against_stock.video_ratio": "Holistic on video: CPU time of stock MediaPipe / ours",
    "against_stock.peak_mb": "memory of an extracting process",
    "extract_against_common.common_wall": "a MediaPipe detector built per picture in a process "
    "pool / ours, wall time",
    "extract_against_common.pose_format_wall": "pose-format's `videos_to_poses` / ours, wall time",
    "openpose_against_loop.wall": "OpenPose detector built per picture in a pool / ours, wall time",
    "openpose_against_loop.wall_openvino": "the same against ours with OpenVINO, wall time",
    "against_rtmlib.usual_cpu": "RTMPose: CPU time of rtmlib / ours",
    "extract_scaling.two_of_one": "extraction, two workers / one",
    "scale.coordinator_ms": "1,000 simulated workers: CPU time of the coordinator per task",
    "faults.killed_runs_that_differ": "runs that differ after kills at random moments",
    "decoders.sparse_340_12_kept_opencv": "8 frames of a 340 x 256 video: CPU time of OpenCV / "
    "ours",
    "decoders.sparse_720_12_kept_torchcodec": "8 frames of a 720p video: CPU time of torchcodec / "
    "ours",
    "decoders.h264_340_all_opencv": "every frame of a 340 x 256 video: CPU time of OpenCV / ours",
    "frames.pack": "8 frames of a video: CPU time from the video / from a pack of `frames`",
    "looking.view_seconds": "`view` of a million frames, CPU time",
    "train_throughput.plain": "our training loop / a plain PyTorch loop, samples per second",
    "train_throughput.fabric": "our training loop / Lightning Fabric, samples per second",
    "train_modes.processes_of_one": "training, two processes / one process with one thread",
    "usual_script_sign_videos6.usual": "training from 288 px videos: CPU time of the usual script "
    "/ ours",
    "usual_script.usual": "training from 120 px videos: CPU time of the usual script / ours",
    "shift.large": "temporal shift, forward and backward: pad + cat / ours",
    "start_up.help_seconds": "`posemill --help`, CPU time",
}
