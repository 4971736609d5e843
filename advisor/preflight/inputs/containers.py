"""Server commands in Kubernetes manifests and compose files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import yaml

from advisor.facts.launch import ServerStart, server_start
from advisor.preflight.inputs.command import ServerCommand, of_script
from advisor.preflight.inputs.documents import at, fields, line_of, script, sequence, word
from advisor.sources.shell import Word, split_shell

_GPU_LIMIT = "nvidia.com/gpu"
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash"})
_DEEPEST = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container as an input describes it: the parts of its command in order."""

    name: str
    parts: tuple[yaml.Node, ...]
    variables: tuple[tuple[str, Word], ...]
    image: Word | None
    gpu_count: int | None


def of_kubernetes(
    documents: Sequence[yaml.MappingNode], text: str, source: str
) -> tuple[ServerCommand, ...]:
    """Return the servers of all containers of all pod templates, however deep they lie."""
    found: list[ServerCommand] = []
    for document in documents:
        kind = _text(at(document, "kind")) or "object"
        name = _text(at(document, "metadata", "name")) or "?"
        for containers in _lists_named(document, "containers"):
            for node in sequence(containers):
                container = _pod_container(node, f"{kind}/{name}", source)
                found.extend(_servers(container, text, source))
    return tuple(found)


def of_compose(document: yaml.MappingNode, text: str, source: str) -> tuple[ServerCommand, ...]:
    """Return the servers of the services of a compose file."""
    found: list[ServerCommand] = []
    for name, node in fields(at(document, "services")).items():
        service = fields(node)
        container = Container(
            name=f"service {name}",
            parts=tuple(service[key] for key in ("entrypoint", "command") if key in service),
            variables=_compose_variables(service.get("environment"), source),
            image=_word(service.get("image"), source),
            gpu_count=_compose_gpus(node),
        )
        found.extend(_servers(container, text, source))
    return tuple(found)


def _pod_container(node: yaml.Node, owner: str, source: str) -> Container:
    container = fields(node)
    variables = tuple(
        (_text(fields(item).get("name")), word(value, source))
        for item in sequence(container.get("env"))
        if (value := fields(item).get("value")) is not None
    )
    limits = at(node, "resources", "limits")
    return Container(
        name=f"{owner} container {_text(container.get('name')) or '?'}",
        parts=tuple(container[key] for key in ("command", "args") if key in container),
        variables=variables,
        image=_word(container.get("image"), source),
        gpu_count=_number(fields(limits).get(_GPU_LIMIT)),
    )


def _servers(container: Container, text: str, source: str) -> Iterator[ServerCommand]:
    """Yield the servers that a container's command starts."""
    variables = {name: value.text for name, value in container.variables}
    words: list[Word] = []
    for part in container.parts:
        if isinstance(part, yaml.ScalarNode):
            shell = split_shell(
                script(part, text), source=source, line=line_of(part), variables=variables
            )
            words.extend(item for command in shell for item in command.words)
        else:
            words.extend(_list_words(part, text, source, variables))
    is_shell = bool(words) and words[0].text.rpartition("/")[2] in _SHELLS
    start = None if is_shell else server_start(words)
    if start is None and _starts_by_image(container, words):
        start = ServerStart(arguments=tuple(words))
    if start is not None:
        yield _server(container, start, source)
        return
    for part in container.parts:
        yield from _in_scripts(container, part, text, source)


def _list_words(
    part: yaml.Node, text: str, source: str, variables: Mapping[str, str]
) -> Iterator[Word]:
    """Yield the words of a list form; `$(NAME)` and `${NAME}` are filled in where set."""
    for item in sequence(part):
        if isinstance(item, yaml.ScalarNode) and item.style in {"|", ">"}:
            yield replace(word(item, source), text=script(item, text))
            continue
        plain = word(item, source)
        quoted = '"' + plain.text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        shell = split_shell(quoted, source=source, line=plain.line, variables=variables)
        yield shell[0].words[0] if "$" in plain.text and shell else plain


def _in_scripts(
    container: Container, part: yaml.Node, text: str, source: str
) -> Iterator[ServerCommand]:
    """Yield the servers in the block scripts of a command such as `["sh", "-c", |...]`."""
    variables = {name: value.text for name, value in container.variables}
    nodes = (part,) if isinstance(part, yaml.ScalarNode) else sequence(part)
    for node in nodes:
        if not isinstance(node, yaml.ScalarNode):
            continue
        for found in of_script(
            script(node, text), source=source, line=line_of(node), variables=variables
        ):
            yield replace(
                _server(container, found.start, source),
                variables=(*container.variables, *found.variables),
                cut_off=found.cut_off,
            )


def _server(container: Container, start: ServerStart, source: str) -> ServerCommand:
    return ServerCommand(
        name=container.name,
        source=source,
        start=start,
        variables=container.variables,
        image=container.image,
        gpu_count=container.gpu_count,
    )


def _starts_by_image(container: Container, words: Sequence[Word]) -> bool:
    """Say whether bare options are for the entry point of an SGLang image."""
    image = container.image.text if container.image is not None else ""
    return bool(words) and words[0].text.startswith("--") and "sglang" in image


def _lists_named(node: yaml.Node, key: str, depth: int = 0) -> Iterator[yaml.Node]:
    if depth > _DEEPEST:
        return
    for name, value in fields(node).items():
        if name == key:
            yield value
        yield from _lists_named(value, key, depth + 1)
    for item in sequence(node):
        yield from _lists_named(item, key, depth + 1)


def _compose_variables(node: yaml.Node | None, source: str) -> tuple[tuple[str, Word], ...]:
    listed = (word(item, source) for item in sequence(node))
    pairs = ((item.text.partition("="), item) for item in listed)
    from_list = tuple((part[0], replace(item, text=part[2])) for part, item in pairs if part[1])
    from_mapping = tuple((name, word(value, source)) for name, value in fields(node).items())
    return (*from_list, *from_mapping)


def _compose_gpus(node: yaml.Node) -> int | None:
    devices = at(node, "deploy", "resources", "reservations", "devices")
    for device in sequence(devices):
        if (count := _number(fields(device).get("count"))) is not None:
            return count
        if ids := sequence(fields(device).get("device_ids")):
            return len(ids)
    return None


def _word(node: yaml.Node | None, source: str) -> Word | None:
    return None if node is None else word(node, source)


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _number(node: yaml.Node | None) -> int | None:
    text = _text(node)
    return int(text) if text.isdigit() else None
