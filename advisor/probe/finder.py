"""Find the interpreter of an SGLang server on the machine that runs this file; print JSON.

Standard library only and Python 3.6 syntax, so that it runs over stdin in any Python. It looks
at /proc and asks the interpreters it finds for their packages' metadata; it writes nothing. The
one argument is a JSON object: {"pid": N} or {"python": PATH} or {} to search.
"""

import os
import sys

# A file named json.py in the working directory must not pass for the standard library.
if sys.path[0] in ("", os.path.dirname(os.path.realpath(sys.argv[0]))):
    del sys.path[0]

import json
import re
import shutil
import subprocess
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

Json = Dict[str, object]

LIMIT_S = 10
WELL_KNOWN = ("/opt/venv", "/opt/conda")
SUMMARY = """
import json, os, sys
found = {"python": ".".join(map(str, sys.version_info[:3]))}
for place in sys.path:
    try:
        entries = os.listdir(place or ".")
    except OSError:
        continue
    for entry in entries:
        stem, mark, _ = entry.partition(".dist-info")
        name, _, version = stem.partition("-")
        if mark and name.lower() in ("torch", "triton", "sglang"):
            found.setdefault(name.lower(), version)
print(json.dumps(found))
"""


class Unusable(Exception):  # noqa: N818  (an answer, not a failure)
    """No interpreter can be chosen; the text says why."""


def read(path: str) -> bytes:
    """Return a file of /proc, empty if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(1 << 20)
    except OSError:
        return b""


def link(path: str) -> str:
    """Return where a link of /proc points, empty if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def command_of(pid: int) -> List[str]:
    """Return the arguments of a process."""
    text = read("/proc/{}/cmdline".format(pid)).decode("utf-8", "replace")
    return text.rstrip("\0 ").split("\0") if text else []


def environment_of(pid: int) -> Dict[str, str]:
    """Return the variables of a process, empty if they cannot be read."""
    pairs = (entry.partition(b"=") for entry in read("/proc/{}/environ".format(pid)).split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, mark, value in pairs if mark}


def role_of(command: Sequence[str], executable: str) -> Optional[str]:
    """Return `server` or the title of a worker; None for a process that is not SGLang's."""
    title = re.match(r"sglang::([\w.:-]+)", command[0])
    if title:
        return title.group(1)
    if executable and "python" not in os.path.basename(executable):
        return None
    for first, second in zip(command, command[1:]):
        if (first, second) == ("-m", "sglang.launch_server"):
            return "server"
        if os.path.basename(first) == "sglang" and second == "serve":
            return "server"
    if any(part.endswith("sglang/launch_server.py") for part in command):
        return "server"
    return None


def server(pid: int) -> Optional[Json]:
    """Describe a process if it is SGLang's."""
    command = command_of(pid)
    executable = link("/proc/{}/exe".format(pid))
    role = role_of(command, executable) if command else None
    if role is None or pid == os.getpid():
        return None
    fact = {"pid": pid, "role": role, "command": command}  # type: Json
    try:
        fact["interpreter"] = interpreter_of(pid)
        if not trusted(pid):
            fact["error"] = (
                "process {0} is another user's: to run its Python give --pid {0}".format(pid)
            )
    except Unusable as problem:
        fact["error"] = str(problem)
    return fact


def trusted(pid: int) -> bool:
    """Say whether a process is ours or root's.

    An interpreter that another user started is not run by a mere search: it is that user's code.
    """
    try:
        return os.stat("/proc/{}".format(pid)).st_uid in (0, os.geteuid())
    except OSError:
        return False


def interpreter_of(pid: int) -> str:
    """Return the interpreter of a process, as the path that leads into its virtual environment."""
    executable = link("/proc/{}/exe".format(pid))
    if not os.path.isdir("/proc/{}".format(pid)):
        raise Unusable("no process {} here".format(pid))
    if not executable:
        raise Unusable(
            "process {} belongs to another user: run as that user or as root".format(pid)
        )
    if link("/proc/{}/ns/mnt".format(pid)) != link("/proc/self/ns/mnt"):
        raise Unusable("process {} runs in a container: use --docker or --kubectl".format(pid))
    if not os.path.basename(executable).startswith(("python", "pypy")):
        raise Unusable("process {} is no Python: {}".format(pid, executable))
    for path in interpreter_guesses(pid):
        if os.path.realpath(path) == executable and os.access(path, os.X_OK):
            return path
    return executable


def interpreter_guesses(pid: int) -> Iterator[str]:
    """Yield paths that may be the interpreter, before links were followed.

    The kernel names the file behind all links, which has lost the virtual environment, and a
    worker has overwritten its arguments with a title; loaded libraries then give the place away.
    """
    first = (command_of(pid) or [""])[0]
    variables = environment_of(pid)
    if "/" in first:
        yield os.path.join(link("/proc/{}/cwd".format(pid)), first)
    elif first and not first.startswith("sglang::"):
        yield shutil.which(first, path=variables.get("PATH", os.defpath)) or first
    maps = read("/proc/{}/maps".format(pid)).decode("utf-8", "replace")
    prefixes = re.findall(r"(/\S*)/lib/python3[.\d]*/site-packages/", maps)
    for prefix in [*prefixes[:1], variables.get("VIRTUAL_ENV", "")]:
        if prefix:
            yield os.path.join(prefix, "bin", "python")
            yield os.path.join(prefix, "bin", "python3")


def servers() -> List[Json]:
    """Return the SGLang processes of this machine, launchers before workers."""
    pids = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    found = [fact for fact in map(server, pids) if fact]
    return sorted(found, key=lambda fact: (fact["role"] != "server", fact["pid"]))


def summary(path: str, origin: str) -> Json:
    """Ask an interpreter which of the packages that matter its metadata names."""
    fact = {"path": path, "origin": origin}  # type: Json
    try:
        answer = subprocess.check_output(
            [path, "-c", SUMMARY],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
        )
        fact.update(json.loads(answer.decode()))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        fact["error"] = "does not run ({})".format(type(error).__name__)
    return fact


def places(processes: Sequence[Json]) -> Iterator[Tuple[str, str]]:
    """Yield the interpreters worth a look, the likeliest of an SGLang server first."""
    for process in processes:
        if "error" not in process:
            yield str(process["interpreter"]), "process {}".format(process["pid"])
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", "python"), variable
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        paths = [os.path.join(folder, name) for name in ("python3", "python")]
        runnable = [path for path in paths if os.path.isabs(path) and os.access(path, os.X_OK)]
        if runnable:
            yield runnable[0], "PATH"
    for folder in WELL_KNOWN:
        yield os.path.join(folder, "bin", "python"), "well-known place"
    yield sys.executable, "interpreter of the search"


def interpreters(processes: Sequence[Json]) -> List[Json]:
    """Return what each interpreter holds, each once."""
    found = {}  # type: Dict[Tuple[str, str], Tuple[str, str]]
    for path, origin in places(processes):
        if os.access(path, os.X_OK):
            key = (os.path.realpath(os.path.dirname(path)), os.path.realpath(path))
            found.setdefault(key, (path, origin))
    return [summary(path, origin) for path, origin in found.values()]


def launched(pid: int) -> Json:
    """Return a process as the choice, and the process whose variables it was started with.

    A worker has overwritten its variables with its title; its launcher still has them.
    """
    origin = "running SGLang, process {}".format(pid)
    fact = {"interpreter": interpreter_of(pid), "pid": pid, "origin": origin}  # type: Json
    while pid > 1:
        if environment_of(pid):
            return dict(fact, variables_pid=pid)
        parent = re.search(rb"^PPid:\s*(\d+)", read("/proc/{}/status".format(pid)), re.MULTILINE)
        pid = int(parent.group(1)) if parent else 0
        if role_of(command_of(pid) or [""], link("/proc/{}/exe".format(pid))) is None:
            break
    return fact


def choose(wish: Json, processes: Sequence[Json], known: Sequence[Json]) -> Json:
    """Choose the interpreter to probe.

    Raises:
        Unusable: If the wanted one cannot be used.
    """
    if wish.get("python"):
        path = os.path.expanduser(str(wish["python"]))
        path = os.path.join(path, "bin", "python") if os.path.isdir(path) else path
        if not shutil.which(path):
            raise Unusable("no interpreter at {}".format(path))
        return {"interpreter": shutil.which(path), "origin": "--python"}
    if wish.get("pid"):
        return dict(launched(int(str(wish["pid"]))), origin="--pid {}".format(wish["pid"]))
    for process in processes:
        if "error" not in process:
            return launched(int(str(process["pid"])))
    for name in ("sglang", "triton", "torch"):
        for fact in known:
            if name in fact:
                origin = "{}, holds {} {}".format(fact["origin"], name, fact[name])
                return {"interpreter": fact["path"], "origin": origin}
    return {"interpreter": sys.executable, "origin": "no interpreter here holds sglang"}


def main(wish: Json) -> Json:
    """Search, choose, and say what else was seen."""
    processes = servers() if os.path.isdir("/proc/self") else []
    known = interpreters(processes)
    document = {"schema_version": 1, "servers": processes, "interpreters": known}  # type: Json
    try:
        document["chosen"] = choose(wish, processes, known)
    except Unusable as problem:
        document["refused"] = str(problem)
    return document


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]) if sys.argv[1:] else {})) + "\n")
