"""Files: what is wrong with a recording, or a part of it, and what trimming took away."""

from __future__ import annotations

from collections.abc import Mapping

FILES: Mapping[str, str] = {
    "file.doubt": "{reason}.",
    "file.kernels": "kernels",
    "file.operators": "operators",
    "decode.deep": "it is nested too deeply",
    "decode.no_object": "{where} is {named}, not an object",
    "decode.missing": "{where}.{name} is missing",
    "decode.not_one_of": "{where} is {named}, not one of {names}",
    "decode.not_64_bits": "{where} does not fit 64 bits",
    "decode.a_text": "a text",
    "decode.a_bool": "true or false",
    "decode.an_int": "a whole number",
    "decode.a_number": "a number",
    "decode.wrong": "{where} is {named}, not {kind}",
    "decode.no_list": "{where} is {named}, not a list",
    "decode.entries": "{where} has {count} entries",
    "decode.entries_not": "{where} has {count} entries, not {wanted}",
    "decode.no_number_key": "{where} has the key {key}, not a number",
    "decode.deep_at": "{where} is nested too deeply",
    "decode.infinite": "{where} is not a finite number",
    "decode.the_text": "the text {text}",
    "decode.a_list": "a list",
    "decode.an_object": "an object",
    "decode.no_json": "{name} is no JSON",
    "file.larger": "it is larger than {size} MiB",
    "file.no_trace": "{path} does not exist.\nName a file that a look inside wrote.",
    "file.cut_short": "it is cut short",
    "file.no_gzip": "it is not compressed by gzip, or damaged",
    "file.unreadable": "{path} cannot be read: {why}.\nCheck its owner: ls -l {owner}",
    "file.bad_trace": (
        "{path} is no trace of PyTorch's profiler that can be trusted: {reason}.\nThe rest of the "
        "recording is not touched by this. Look again: perfzero run -- COMMAND"
    ),
    "file.sign_missing": "{sign} is missing in front of {text}",
    "file.many_values": "it holds more than {most} values",
    "file.long_value": "one value in it takes more than {most} characters",
    "file.much_text": "it holds more than {size} MiB",
    "file.no_events": "it holds no list of events",
    "file.many_names": "it names more than {most} different things",
    "file.long_names": "its names and shapes take more than {most} characters",
    "file.many_events": "it holds more than {most} events",
    "file.many_modules": "it names more than {most} modules",
    "file.no_base": "{name} does not say from when its times count; they were taken as Unix time.",
    "file.damaged_events": "{name}: {count} damaged events were skipped.",
    "file.too_many_names": "{name} names more than {most} {what}; all others are told as one.",
    "file.no_gpu": (
        "{path} holds nothing of GPU {gpu}. GPUs watched: {watched}.\nName one of them with --gpu, or "
        "leave --gpu out."
    ),
    "file.no_stream": "{name} is no stream that perfzero writes; it was left out.",
    "file.unlisted_gpu": "{name} belongs to a GPU that the manifest does not list; it was left out.",
    "file.left_out": "{name} cannot be read and was left out: {why}.",
    "file.before_segment": "{name}: {rows} rows from before the segment began were dropped.",
    "file.unlistable": "{folder} cannot be listed: {why}.\nCheck its owner: ls -ld {owner}",
    "file.is_file": "is a file, and a recording is a folder",
    "file.not_there": "does not exist",
    "file.no_folder": "{folder} {what}.\nMake a recording: perfzero record -o {new} -- COMMAND",
    "file.no_recording": (
        "{folder} holds no recording: there is no {manifest} in it.\nName the folder that `perfzero "
        "record` printed when it ended."
    ),
    "file.no_format": "it does not say in which format the recording is",
    "file.newer": (
        "{folder} was written by a newer perfzero, in format {version}; this one reads up to "
        "{most}.\nUpgrade: pip install --upgrade perfzero"
    ),
    "file.bad_manifest": (
        "{path} is no manifest that can be trusted: {reason}.\nRecord again: perfzero record -o "
        "NEW_FOLDER -- COMMAND"
    ),
    "file.still_running": "The recording was cut short or is still running: its end was never written.",
    "file.incomplete": "The recording is incomplete: the recorder had to stop or to leave something out.",
    "file.no_events_file": "{events} is missing: windows, gaps and notes are unknown.",
    "file.events_unreadable": "{events} cannot be read, so windows, gaps and notes are unknown: {why}.",
    "file.events_long": "{events} is too long; only its first {size} MiB were read.",
    "file.damaged_lines": "{events}: {count} damaged lines were skipped.",
    "file.damaged_collections": (
        "{events}: what {count} looks say of Python's garbage collector is damaged and was left out."
    ),
    "file.unknown_events": "{events}: {count} events of a kind unknown here were skipped.",
    "file.ends_in_line": "{events} ends in the middle of a line; only that line is lost.",
    "file.is_link": "it is a link, which a recording never holds",
    "file.not_regular": "it is no regular file",
    "file.many_gpus": "it lists {count} GPUs, more than the {most} that are read",
    "file.same_index": "it lists two GPUs with the same index",
    "file.far_apart": (
        "{path} holds times that lie too far apart.\nLook again: perfzero run --agent -- COMMAND"
    ),
    "file.damaged_middle": "it is damaged in the middle, and what follows was left out",
    "file.ends_in_batch": "it ends in the middle of a batch, of which nothing is left",
    "file.no_arrow_schema": "it does not start with a schema",
    "file.extension_type": "it has columns of an extension type",
    "file.many_columns": "it has {count} columns, more than the {most} that are read",
    "file.same_columns": "two of its columns have the same name",
    "file.first_columns": "its first two columns are no times of type int64",
    "file.column_type": "its column {column} is not of type float32 or float64",
    "file.claims": "it says of itself that it is the stream {stream}",
    "file.unknown_columns": "{name} has {count} columns that this perfzero does not know: {names}.",
    "file.first_rows": "{name} is too long to be read whole: only its first {rows} rows were.",
    "file.damaged_batches": "{name}: {count} damaged batches were skipped.",
    "file.infinite": "{name}: {count} infinite values were taken as missing.",
    "file.negative_rows": "{name}: {count} rows that end before they start were dropped.",
    "file.unordered_rows": "{name}: {count} rows out of order were dropped.",
    "file.no_batch": "not a record batch",
    "file.impossible_rows": "an impossible number of rows",
    "file.impossible_buffers": "an impossible number of buffers",
    "file.buffer_outside": "a buffer outside its message",
    "file.buffer_large": "a buffer that claims to be larger than its rows",
    "file.part_missing": "a part of the message is missing",
    "file.table_outside": "a table outside its message",
    "trim.itself": "A recording cannot be trimmed onto itself.\nChoose another folder with -o.",
    "trim.no_samples": "{path} holds no samples, so there is nothing to trim.",
    "trim.many_looks": "there are more than {most}",
    "trim.left_out": "left out by perfzero trim: {why}",
    "trim.nothing_between": "Nothing lies between {first} s and {last} s.\nGive a --to after --from.",
    "trim.no_sample": (
        "No sample lies in the wanted time: the recording lasts {length} s.\nGive --from and --to in "
        "seconds since its beginning."
    ),
    "trim.with_it": "the recording takes {size} KB with it; allow them with --max-size {option}KB",
    "trim.with_them": "the recording takes {size} KB with them; allow them with --max-size {option}KB",
    "trim.no_smaller": (
        "The recording cannot be made smaller than {least} KB, and {asked} KB were asked for: {whole} KB "
        "of it are GPM, board and host tables, which are kept whole.\nCut it by time with --from and "
        "--to, or allow more with --max-size."
    ),
    "trim.unwritable": "{folder} cannot be written: {why}.\nChoose another folder with -o.",
    "trim.kept_time": "kept {start} s to {end} s of {lasted} s",
    "trim.kept_samples": (
        "kept {rows} of {rows_before} samples and {windows} windows where there were {windows_before}"
    ),
    "trim.rounded": "rounded values to a relative error of {error}",
    "trim.kept_looks": "kept {kept} of {there} looks inside the program, as much as a breakdown is made of",
    "trim.left_out_file": "left out {file}: {why}",
    "trim.kept_host": "kept what the host was seen to do, without the folders of its files",
    "trim.redacted": "took out host name, paths and serial numbers",
    "file.no_longer": "{name} could no longer be written: {why}",
    "file.not_written": "{file} could not be written: {why}",
    "file.not_empty": (
        "{path} is not empty (it holds {found}), and nothing is ever overwritten.\nChoose another folder "
        "with -o, or add --force to replace the recording in it."
    ),
    "file.unwritable": "No recording can be written to {path}: {why}.\nChoose another folder with -o.",
    "file.stacks_larger": "the stacks take more than {size} MiB",
    "file.pyspy_no_events": "py-spy wrote no list of events",
    "file.pyspy_no_time": "an event of py-spy has no time or no thread",
    "file.stacks_many": "the stacks are too many",
    "file.pyspy_no_frame": "an event of py-spy has no frame",
    "file.no_stacks": "{path} does not exist.\nThe host was not sampled in this recording.",
    "file.stacks_cut": "{file} is cut short or damaged.\nThe rest can be judged without it.",
    "file.stacks_bad": "{file} holds no stacks: {why}.\nThe rest can be judged without it.",
    "file.no_schema": "it is not of schema {schema}",
    "file.too_long": "it lasts too long",
    "file.no_rate": "rate_hz is no rate",
    "file.bad_stack": "a stack is no list, or too long",
    "file.bad_list": "{name} is no list, or too long",
    "file.number_missing": "a number is missing, or out of range",
    "file.text_missing": "a text is missing",
}
