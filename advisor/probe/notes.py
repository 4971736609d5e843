"""What is worth saying in words about the interpreters and servers of a machine."""

from __future__ import annotations

from advisor.knowledge.environment import Environment, ServerProcess


def notes_on(environment: Environment, chosen: str) -> tuple[str, ...]:
    """Return the notes on a probe of the interpreter `chosen`."""
    return (
        *_on_triton(environment, chosen),
        *_on_servers(environment.servers),
    )


def _on_triton(environment: Environment, chosen: str) -> tuple[str, ...]:
    """Say where Triton is and where it is not, if the interpreters differ.

    A Triton that fails to import counts as present: its error stands beside its package.
    """
    version = environment.package_version("triton")
    others = [i for i in environment.interpreters if i.path != chosen and i.error is None]
    differing = [i for i in others if i.triton != version]
    present = ", ".join(f"{i.path} ({i.triton})" for i in differing if i.triton)
    missing = ", ".join(i.path for i in differing if not i.triton)
    if version is None:
        return (f"Triton is missing in {chosen}, but is in {present}",) if present else ()
    texts = (
        f"is missing in {missing}" if missing else "",
        f"has another version in {present}" if present else "",
    )
    rest = " and ".join(filter(None, texts))
    return (f"Triton {version} is in {chosen}, but {rest}",) if rest else ()


def _on_servers(servers: tuple[ServerProcess, ...]) -> tuple[str, ...]:
    launchers = [server for server in servers if server.role == "server"]
    notes = [f"SGLang {server.error}" for server in servers if server.error]
    if len(launchers) > 1:
        pids = ", ".join(str(server.pid) for server in launchers)
        notes.append(f"{len(launchers)} SGLang servers run here ({pids}): choose with --pid")
    return tuple(dict.fromkeys(notes))
