"""Beginning a run, or going on with one: the manifest, the plan, and what must not have changed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posemill.errors import RunError
from posemill.files import readable, sync_folder
from posemill.jobs.extract.job import FrameJob
from posemill.messages import Message, join
from posemill.places import uri_of
from posemill.records import Clip
from posemill.runs.events import ChangedClip, Planned, PlannedClip, Reset
from posemill.runs.home import RunHome
from posemill.runs.ledger import Ledger
from posemill.runs.log import EventLog
from posemill.runs.manifest import MANIFEST_NAME, Manifest, check_folder, check_ledger_is_there
from posemill.runs.queries import ClipRecord
from posemill.runs.records import RecordLog
from posemill.sources import ClipList
from posemill.sources.clip_list import digest_of
from posemill.sources.reading import count_frames
from posemill.sources.tracking import Tracking


def open_events(
    job: FrameJob,
    clips: ClipList,
    manifest: Manifest,
    *,
    on_count: Callable[[int, int], None],
    records: RecordLog | None = None,
) -> EventLog:
    """Return the events of a run, planned: of a new one, or of one that goes on."""
    home, folder = job.home, job.home.work
    if check_folder(folder):
        compare(home, manifest)
        check_ledger_is_there(folder)
    else:  # the manifest first: it is what makes the folder ours
        home.write_manifest(manifest)
    sync_folder(folder.parent)
    events = EventLog(folder, records)
    try:
        run_id = Manifest.read(folder).run_id
        if events.ledger.planned_run() != run_id:
            counted = job.count_frames(clips, on_count)
            units = tuple(job.plan(counted))
            events.record(Planned(run_id, planned_clips(counted), units))
        _check_source(job, events, clips, manifest)
        job.prepare(events)
    except BaseException:
        events.close()
        raise
    return events


def planned_clips(clips: Sequence[Clip]) -> tuple[PlannedClip, ...]:
    """Return the clips of a source, with the numbers of frames that are wanted, for a plan."""
    return tuple(
        PlannedClip(clip.split, clip.clip_id, clip.num_frames, digest_of(clip)) for clip in clips
    )


def changes_of(ledger: Ledger, clips: Sequence[Clip]) -> list[tuple[Message, ClipRecord | None]]:
    """Return what of a source is not as it was when the run began: in words (`train/x is new`), and
    the record of a clip that is not the same.
    """
    known = {(clip.split, clip.clip_id): clip for clip in ledger.clips()}
    changes: list[tuple[Message, ClipRecord | None]] = []
    for clip in clips:
        name = readable(clip.split), readable(clip.clip_id)
        old = known.pop(name, None)
        if old is None:
            changes.append((Message("{clip} is new", clip="/".join(name)), None))
        elif old.content != digest_of(clip):
            changes.append((Message("{clip} is not the same", clip="/".join(name)), old))
    gone = [Message("{clip} is gone", clip="/".join(name)) for name in known]
    return changes + [(line, None) for line in gone]


def recorded_tracking(folder: Path) -> Tracking | None:
    """Return what was decided about the folders of pictures when the run was begun."""
    record = Manifest.read(folder).source.get("tracking")
    try:
        return None if record is None else Tracking.from_record(record)
    except (TypeError, ValueError, KeyError) as error:
        raise RunError(
            "{path}: 'tracking' is not what posemill writes ({error}); put back a copy of "
            "the file, or choose another folder",
            path=folder / MANIFEST_NAME,
            error=error,
        ) from error


def source_record(path: Path, clips: ClipList) -> dict[str, Any]:
    """Return what a manifest says of a source."""
    here = os.fsencode(os.path.abspath(path)).decode("utf-8", "backslashreplace")  # noqa: PTH100
    decided = {} if clips.tracking is None else {"tracking": clips.tracking.to_record()}
    return {
        "path": uri_of(path) or here,
        "layout": clips.layout,
        "fingerprint": clips.fingerprint,
        "num_clips": len(clips),
        "num_frames": sum(clip.num_frames or 0 for clip in clips),
        **decided,
    }


def compare(home: RunHome, manifest: Manifest) -> None:
    """Raise where a run was begun by another command, or with options of another result."""
    old = Manifest.read(home.work)
    engines = [run.engine.get("engine", "") for run in (old, manifest)]
    for before, now in ([old.kind, manifest.kind], engines):
        if before and before != now:
            raise RunError(
                "{folder} was begun with {before!r}, not with {now!r}: go on with that, or choose "
                "another folder",
                folder=home.name,
                before=before,
                now=now,
            )
    # A dataset may be moved, and `_check_source` looks at its clips. How the engine was asked for
    # may change, since its identity says what came of it.
    source = {**old.source, "layout": manifest.source["layout"]}
    asked = {name: old.options.get(name) for name in ("engine", "engine_options")}
    options = {**manifest.options, **asked}
    differences = old.differences(dataclasses.replace(manifest, source=source, options=options))
    if differences:
        hint = ""
        if old.runtime and old.runtime != manifest.runtime:
            # Where none was asked for, the engine chose: what is installed decides.
            hint = Message(" (with {--engine-option:runtime={runtime}})", runtime=old.runtime)
        raise RunError(
            "{folder} was begun with other options, so it cannot go on with these:\n  "
            "{differences}\nuse the same options{hint}, or another folder",
            folder=home.name,
            differences=join("\n  ", differences),
            hint=hint,
        )


def _check_source(job: FrameJob, events: EventLog, clips: ClipList, manifest: Manifest) -> None:
    """Raise where the source is not as it was; make what failed to be done again, if asked for."""
    home, is_retry = job.home, job.config.retry_failed
    old = Manifest.read(home.work)
    is_same = old.source["fingerprint"] == clips.fingerprint
    if is_same and not is_retry:
        return
    changes = changes_of(events.ledger, clips)
    only_failed = all(record is not None and record.has_failed for _, record in changes)
    if changes and not (is_retry and only_failed):
        advice = Message(
            "put it back as it was (a copy of a file needs its time of change too: cp -p, rsync "
            "-t), or use another folder; posemill merge joins a run of what is new with this one"
        )
        if only_failed:
            advice = Message(
                "these clips had failed: add {--retry-failed:True} to do them again as they are now"
            )
        raise RunError(
            "the source is not the one {folder} was begun with, {number:clip is|clips are} not "
            "the same:\n  {changes}\n{advice}",
            folder=home.name,
            number=len(changes),
            changes=join("\n  ", [line for line, _ in changes[:5]]),
            advice=advice,
        )
    if is_retry:
        # Those that failed before anybody knew their length are counted now, too.
        known = events.ledger.clips()
        again = {record.clip_no for record in known if record.has_failed and not record.num_frames}
        again |= {record.clip_no for _, record in changes if record is not None}
        anew = []
        for clip_no in sorted(again):
            clip = clips[clip_no - 1]
            length = count_frames(clip, job.config.decoder, job.sampling)
            anew.append(ChangedClip(clip_no, length, digest_of(clip)))
        events.record(Reset(tuple(anew)))
    if not is_same:
        home.write_manifest(dataclasses.replace(old, source=manifest.source))
