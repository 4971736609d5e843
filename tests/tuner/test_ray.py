from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.configs.problem import MoeProblem
from advisor.tuner.journal import Journal
from advisor.tuner.rehearsal import Rehearsal
from advisor.tuner.run import Plan, Progress, Result, Run

ray = pytest.importorskip("ray", reason="needs the extra [ray]")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
BATCHES = (1, 16, 64, 256, 1024)
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    places = (str(ROOT), os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def tune(
    plan: Plan, setup: Rehearsal, path: Path, on_progress: Callable[[Progress], None]
) -> tuple[Result, dict[str, int]]:
    from advisor.tuner.ray_pool import RayPool

    pool = RayPool(setup, "auto", gpus_needed=False, lanes=2, compilers=1)
    with Journal(path) as journal:
        result = Run(plan, pool, journal, on_progress=on_progress).tune()
    pool.close()
    return result, shares_of(path)


def shares_of(path: Path) -> dict[str, int]:
    import sqlite3

    with sqlite3.connect(path) as database:
        return dict(database.execute("SELECT lane, count(*) FROM results GROUP BY lane"))


def test_a_cluster_gives_the_files_of_one_machine(
    two_nodes: object,
    tmp_path: Path,
    problem: MoeProblem,
    small_plan: Callable[..., Plan],
    inline_pool: type,
) -> None:
    setup = Rehearsal(problem=problem, delay_s=0.01)
    with Journal(tmp_path / "local") as journal:
        measure = setup.open(0).measure
        local = Run(small_plan(BATCHES), inline_pool(measure), journal).tune()
    spread, shares = tune(small_plan(BATCHES), setup, tmp_path / "ray", lambda _: None)
    assert spread.choices == local.choices
    assert len(shares) == 2
    assert min(shares.values()) > 0.3 * sum(shares.values())


def test_the_work_of_a_lost_node_is_taken_over(
    two_nodes: object, tmp_path: Path, problem: MoeProblem, small_plan: Callable[..., Plan]
) -> None:
    diary = tmp_path / "diary"
    setup = Rehearsal(problem=problem, delay_s=0.01, diary=diary)
    lost: list[bool] = []

    def lose_a_node(progress: Progress) -> None:
        if progress.measured >= 40 and not lost:
            lost.append(True)
            two_nodes.remove_node(two_nodes.list_all_nodes()[-1])  # type: ignore[attr-defined]

    result, shares = tune(small_plan(BATCHES), setup, tmp_path / "ray", lose_a_node)
    assert lost
    assert not result.stopped
    assert [choice.tokens for choice in result.choices] == list(BATCHES)
    assert result.failed == 0
    assert len(shares) == 2
