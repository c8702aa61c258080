import os
import subprocess
import sys

import pytest

from posemill import language
from posemill.language import chosen_language, translate
from posemill.messages import Message, join, render

NAMES = ("POSEMILL_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


@pytest.fixture(autouse=True)
def chinese(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POSEMILL_LANG", "zh")


@pytest.mark.parametrize(("given", "expected"), [
    ({}, "en"), ({"LANG": "C.UTF-8"}, "en"), ({"LANG": "de_DE.UTF-8"}, "en"),
    ({"LANG": "zh_CN.UTF-8"}, "zh_CN"), ({"LANG": "zh_CN.GB18030"}, "zh_CN"),
    ({"LANG": "zh_TW.UTF-8"}, "en"), ({"LANG": "zh_HK"}, "en"), ({"LANG": "zh_SG"}, "zh_CN"),
    ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_CN.UTF-8"}, "zh_CN"),
    ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"), ({"LANG": "zh_CN", "LANGUAGE": "en"}, "en"),
    ({"LANG": "zh_CN.UTF-8", "POSEMILL_LANG": "en"}, "en"), ({"POSEMILL_LANG": "zh"}, "zh_CN"),
    ({"POSEMILL_LANG": "zh-CN", "LANG": "C"}, "zh_CN"), ({"POSEMILL_LANG": ""}, "en"),
])  # fmt: skip
def test_our_own_setting_goes_before_the_locale(given, expected, monkeypatch):
    monkeypatch.delenv("POSEMILL_LANG")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert chosen_language() == expected


@pytest.mark.parametrize(("template", "values", "expected"), [
    ("all well", {}, "一切正常"),
    ("{split}: {num_clips:clip|clips}, {num_frames:frame|frames}",
     {"split": "3 clips, 12 frames", "num_clips": 1, "num_frames": 64},
     "3 clips, 12 frames：1 个片段，64 帧"),
    ("posemill: {error}", {"error": "a sentence nobody translated"},
     "posemill：a sentence nobody translated"),
    ("nobody translated {this}", {"this": "all well"}, "nobody translated all well"),
    ("not kept: {losses}", {"losses": join("; ", [Message("all well"), "all well"])},
     "未保留：一切正常；all well"),
])  # fmt: skip
def test_a_message_is_found_by_its_template_and_its_values_stay(
    template, values, expected, monkeypatch
):
    message = Message(template, **values)
    assert render(message) == expected
    monkeypatch.setenv("POSEMILL_LANG", "en")
    assert render(message) == str(message)


def test_without_its_catalogue_it_speaks_english(tmp_path, monkeypatch):
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    language._load.cache_clear()
    assert translate("all well") == "all well"
    language._load.cache_clear()


def run(*arguments, chosen):
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment |= {"POSEMILL_LANG": chosen, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "posemill", *arguments], env=environment, text=True,
        encoding="utf-8", capture_output=True, check=False,
    )  # fmt: skip


def test_a_chinese_process_says_help_and_usage_errors_in_chinese():
    said = run("--help", chosen="zh").stdout
    assert "用法：posemill" in said
    assert "  extract           提取整个数据集的关键点。" in said
    assert "显示本帮助并退出。" in said
    wrong = run("extrct", chosen="zh")
    assert wrong.returncode == 2
    assert "没有这个命令 'extrct'；是不是想写 'extract'" in wrong.stderr
    assert "缺少参数 'RUN_OR_FILE'。" in run("view", chosen="zh").stderr
    gone = run("status", "nowhere", chosen="zh")
    assert gone.returncode == 2
    assert "posemill：nowhere 不存在" in gone.stderr


def test_english_needs_no_gettext():
    code = (
        "import sys; from posemill.language import translate; translate('all well');"
        "assert 'posemill.commands.help_page' not in sys.modules;"
        "import posemill.language as l; assert not l._load.cache_info().currsize"
    )
    environment = {**os.environ, "POSEMILL_LANG": "en"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
