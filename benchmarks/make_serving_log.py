"""Make a serving log of a given size: the mix of lines of a busy server, deterministic.

    python benchmarks/make_serving_log.py --mib 512 -o serving.log

Of ten lines about six are access lines, three are Prefill lines and one is a Decode line, as in
the real logs under tests/fixtures/logs; a start-up of one rank stands at the head.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

_BEGIN = datetime(2026, 3, 4, 5, 6, 7)  # noqa: DTZ001  (SGLang prints local time without a zone)
_LINES_PER_CHUNK = 20_000


def startup(time: str) -> list[str]:
    """Return the lines of a short start-up."""
    return [
        f"[{time}] server_args=ServerArgs(model_path='/models/demo', tp_size=1, mem_fraction_static=0.85)",
        f"[{time}] Load weight begin. avail mem=139.11 GB",
        f"[{time}] Load weight end. elapsed=21.40 s, type=Qwen3MoeForCausalLM, avail mem=82.22 GB, mem usage=56.89 GB.",
        f"[{time}] KV Cache is allocated. #tokens: 750511, K size: 34.36 GB, V size: 34.36 GB",
        f"[{time}] Memory pool end. avail mem=12.77 GB",
        (
            f"[{time}] max_total_num_tokens=750511, chunked_prefill_size=8192, max_prefill_tokens=16384, "
            "max_running_requests=4096, context_len=40960, available_gpu_mem=10.81 GB"
        ),
        f"[{time}] The server is fired up and ready to roll!",
    ]


def serving(seed: int) -> Iterator[str]:
    """Yield serving lines for ever."""
    draw = random.Random(seed)  # noqa: S311  (reproducible data, no secret)
    moment = _BEGIN
    while True:
        moment += timedelta(milliseconds=draw.randrange(5, 120))
        time = moment.strftime("%Y-%m-%d %H:%M:%S")
        running, queue = draw.randrange(1, 200), draw.choice((0, 0, 0, 3, 17))
        usage = draw.random()
        for _ in range(6):
            port = draw.randrange(30_000, 60_000)
            yield f'[{time}] INFO:     10.0.3.7:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        for _ in range(3):
            new, cached = draw.randrange(1, 8192), draw.randrange(0, 8192)
            yield (
                f"[{time}] Prefill batch, #new-seq: {draw.randrange(1, 9)}, #new-token: {new}, "
                f"#cached-token: {cached}, token usage: {usage:.2f}, #running-req: {running}, "
                f"#queue-req: {queue}, #pending-token: 0, cuda graph: True, "
                f"input throughput (token/s): {draw.random() * 20_000:.2f}"
            )
        yield (
            f"[{time}] Decode batch, #running-req: {running}, #token: {draw.randrange(1, 750_511)}, "
            f"token usage: {usage:.2f}, cuda graph: {draw.randrange(10) > 0}, "
            f"gen throughput (token/s): {draw.random() * 3000:.2f}, #queue-req: {queue}"
        )


def write(path: Path, size_bytes: int, seed: int) -> None:
    """Write a log of at least this size."""
    lines = serving(seed)
    with path.open("w", encoding="utf-8") as stream:
        stream.write("\n".join(startup(_BEGIN.strftime("%Y-%m-%d %H:%M:%S"))) + "\n")
        while stream.tell() < size_bytes:
            stream.write("\n".join(next(lines) for _ in range(_LINES_PER_CHUNK)) + "\n")


def main() -> None:
    """Parse the options and write the log."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    write(options.output, options.mib << 20, options.seed)


if __name__ == "__main__":
    main()
