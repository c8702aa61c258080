import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import DecodeError, RunError
from posemill.messages import Flags, Message, Option, flags_shown, join, render


@pytest.mark.parametrize(("message", "python", "shell"), [
    (Message("give {--layout:videos} or {--layout:frames}"),
     'give layout="videos" or layout="frames"', "give --layout videos or --layout frames"),
    (Message("add {--resume:True}, or another {--out}"),
     "add resume=True, or another out", "add --resume, or another --out"),
    (Message("with {--faces:False}"), "with faces=False", "with --no-faces"),
    (Message("{--processes:{count}} or fewer", count=2), "processes=2 or fewer",
     "--processes 2 or fewer"),
    (Message("{--engine-option:runtime=litert}"), "engine_options={'runtime': 'litert'}",
     "--engine-option runtime=litert"),
    (Message("name it by {--from}"), "name it by from_format", "name it by --from"),
    (Message("{--split-long:10}"), "split_long_seconds=10", "--split-long 10"),
    (Message("{setting}: expected 2", setting=Option("task_frames")), "task_frames: expected 2",
     "--task-frames: expected 2"),
    (Message("try {best}", best=Option("workers", 3)), "try workers=3", "try --workers 3"),
    (Message("run: posemill status {run!q} --failures", run="my run"),
     *("run: posemill status 'my run' --failures",) * 2),
])  # fmt: skip
def test_options_are_keywords_in_python_and_flags_in_a_shell(message, python, shell):
    assert str(message) == python
    assert render(message, flags=Flags()) == shell
    with flags_shown(Flags()):
        assert render(Message("{inner}!", inner=message)) == f"{shell}!"
    assert render(message) == python


def test_a_setting_of_a_file_has_no_flag():
    message = Message("{--epochs}: expected 1; see {--lr}")
    assert render(message, flags=Flags(in_file={"epochs"})) == "epochs: expected 1; see --lr"


@pytest.mark.parametrize(("template", "values", "said"), [
    ("{n:clip is|clips are} cut", {"n": 1}, "1 clip is cut"),
    ("{n:clip is|clips are} cut", {"n": 0}, "0 clips are cut"),
    ("{n:,|frame|frames}", {"n": 12000}, "12,000 frames"),
    ("{share:.1%} of {name!r}", {"share": 0.25, "name": "a'b"}, '25.0% of "a\'b"'),
    ("{shape}", {"shape": (3, 2)}, "(3, 2)"),
    ("write {split}_a.npz", {}, "write {split}_a.npz"),
    ("{path}: {path}", {"path": "{path} {--out} {{"}, "{path} {--out} {{: {path} {--out} {{"),
])  # fmt: skip
def test_a_template_is_filled_once(template, values, said):
    assert Message(template, **values) == said


def test_chinese_is_looked_up_by_the_template_and_values_stay():
    message = Message("posemill: {error}", error=RunError("{text}", text="all well"))
    assert render(message, language="zh_CN") == "posemill：all well"
    inner = Message("posemill: {error}", error=Message("all well"))
    assert render(inner, language="zh_CN") == "posemill：一切正常"
    assert render("all well", language="zh_CN") == "all well", "text of somebody else"
    assert render(join("; ", [Message("all well"), "", "x"]), language="zh_CN") == "一切正常；x"


def test_a_message_travels_to_other_processes_with_its_values():
    message = Message(
        "{path} {error} {score:.2f} {option} {array}", path=Path("a"), score=np.float32(0.5),
        error=RunError("{n:clip|clips}", n=1), option=Option("lr", 2), array=np.zeros(2),
    )  # fmt: skip
    copy = pickle.loads(pickle.dumps(message))
    assert copy == message
    assert render(copy, flags=Flags()) == "a 1 clip 0.50 --lr 2 [0. 0.]"
    both = join("; ", [message, "b"])
    assert pickle.loads(pickle.dumps(both)) == both
    assert json.loads(json.dumps([message])) == [str(message)], "files are English"


def test_an_error_travels_with_what_belongs_to_it():
    error = DecodeError("{path!r} is cut", path="a", reason="truncated", frame_index=3)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.reason, copy.frame_index) == ("'a' is cut", "truncated", 3)
    assert copy.sentence.template == "{path!r} is cut"
    assert RunError(error.sentence).sentence is error.sentence
