"""Recompute max_running_requests.

Sources: SGLang 0.5.3 and 0.5.6 `model_executor/model_runner.py` with `managers/tp_worker.py`;
0.5.9 to 0.5.14 `model_executor/model_runner_kv_cache_mixin.py`; 0.5.16 to 0.5.23
`mem_cache/kv_cache_configurator.py` (`resolve_max_num_reqs`). The value is per DP worker, as in
the scheduler's line.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.capacity.inputs import CapacityInputs, StateStrategy
from advisor.capacity.pools import Setting, slot_pool
from advisor.capacity.releases import ReleaseRules, RequestedBound, releases_for, rules_of, table
from advisor.capacity.settle import report
from advisor.capacity.values import Candidate, CapacityReport, Limit, LimitName


def limits(inputs: CapacityInputs) -> CapacityReport:
    """Recompute max_running_requests with every bound, the one that binds and the next one.

    Releases, or slots per request, that the inputs leave open become candidates; the logged value
    may single one out.
    """
    candidates = tuple(
        candidate
        for release in releases_for(inputs.version, inputs.version_range)
        for candidate in _candidates(rules_of(release), inputs)
    )
    return report("max_running_requests", inputs, candidates, inputs.logged_max_running_requests)


def slots_per_request(rules: ReleaseRules, inputs: CapacityInputs) -> tuple[int, ...]:
    """Return the state slots that a request can take, ascending; one when the inputs settle it."""
    if not rules.radix_cache_possible or inputs.radix_cache is False:
        return (1,)
    modes = set(_strategy_slots(rules, inputs))
    return tuple(sorted(modes if inputs.radix_cache else modes | {1}))


def requested(rules: ReleaseRules, inputs: CapacityInputs) -> tuple[LimitName, int] | None:
    """Return the requested value after SGLang's own defaults; None if unset or unknown."""
    if inputs.max_running_requests is not None:
        return LimitName.REQUESTED, inputs.max_running_requests
    if inputs.deepseek_v4 and rules.deepseek_v4_default is not None:
        return LimitName.DEEPSEEK_V4_DEFAULT, rules.deepseek_v4_default
    if inputs.speculative:
        return LimitName.SPECULATIVE_DEFAULT, rules.speculative_default
    return None


def settings(rules: ReleaseRules, inputs: CapacityInputs) -> tuple[Setting, ...]:
    """Return what the inputs can mean in one release: one setting for each slots per request."""
    asked = requested(rules, inputs)
    counts = slots_per_request(rules, inputs) if inputs.is_hybrid else (1,)
    return tuple(
        Setting(rules=rules, inputs=inputs, requested=asked[1] if asked else None, slots=count)
        for count in counts
    )


def _candidates(rules: ReleaseRules, inputs: CapacityInputs) -> Iterator[Candidate]:
    options = settings(rules, inputs)
    asked = requested(rules, inputs)
    for setting in options:
        assumed = (f"{_slots(setting.slots)} per request",) if len(options) > 1 else ()
        if asked is not None or inputs.arguments_known:
            yield _candidate(setting, _request_limits(setting), assumed)
        else:
            unset = (*assumed, "no --max-running-requests")
            yield _candidate(setting, _request_limits(setting), unset)
            given = (*assumed, "--max-running-requests given, value unknown")
            yield _candidate(setting, _unknown_request_limits(setting), given)


def _candidate(
    setting: Setting, bounds: tuple[Limit, ...], assumptions: tuple[str, ...]
) -> Candidate:
    hybrid = setting.inputs.is_hybrid
    return Candidate(
        releases=(setting.rules.release,),
        limits=(*bounds, _state_limit(setting)) if hybrid else bounds,
        assumptions=assumptions,
        slots_per_request=setting.slots if hybrid else None,
    )


def _request_limits(setting: Setting) -> tuple[Limit, ...]:
    asked = requested(setting.rules, setting.inputs)
    if asked is None:
        return _token_estimate(setting), _half_of_tokens(setting.inputs)
    return (_requested_limit(setting, *asked), *_bound_of_request(setting))


def _unknown_request_limits(setting: Setting) -> tuple[Limit, ...]:
    unknown = Limit(
        name=LimitName.REQUESTED,
        low=1,
        high=None,
        formula="--max-running-requests, if it was given",
        missing=("max_running_requests",),
    )
    return (unknown, *_bound_of_request(setting))


def _bound_of_request(setting: Setting) -> tuple[Limit, ...]:
    match setting.rules.requested_bound:
        case RequestedBound.NONE:
            return ()
        case RequestedBound.ESTIMATE:
            return (_token_estimate(setting),)
        case RequestedBound.HALF_OF_TOKENS:
            return (_half_of_tokens(setting.inputs),)


def _requested_limit(setting: Setting, name: LimitName, total: int) -> Limit:
    inputs = setting.inputs
    workers = inputs.data_parallel_workers
    share = max(setting.rules.requested_floor, total // workers)
    origin = {
        LimitName.SPECULATIVE_DEFAULT: "default with speculative decoding",
        LimitName.DEEPSEEK_V4_DEFAULT: "default for DeepSeek-V4",
    }.get(name, "--max-running-requests")
    source = {
        LimitName.SPECULATIVE_DEFAULT: "speculative_algorithm",
        LimitName.DEEPSEEK_V4_DEFAULT: "deepseek_v4",
    }.get(name, "max_running_requests")
    formula = f"{total} ({origin})"
    if workers > 1:
        formula += f" // {workers} DP workers = {share}"
    used = (source, "data_parallel_workers") if workers > 1 else (source,)
    return Limit(name=name, low=share, high=share, formula=formula, inputs=used)


def _token_estimate(setting: Setting) -> Limit:
    """Return int(tokens / context * 512), clamped to 2048..4096.

    Up to 0.5.9 it sees the tokens before `--max-total-tokens`, page rounding and the
    sliding-window split, which no line prints.
    """
    inputs, tokens, context = setting.inputs, *_tokens_and_context(setting.inputs)
    least, most = _estimate("least"), _estimate("most")
    fields = ("max_total_num_tokens", "context_length")
    if tokens is None or context is None:
        missing = tuple(name for name in fields if getattr(inputs, name) is None)
        return _estimate_limit(least, most, f"clamped to {least}..{most}", missing=missing)
    low = _clamped(tokens, context)
    raw = int(tokens / context * _estimate("requests_per_context"))
    formula = f"{tokens} tokens / {context} context * {_estimate('requests_per_context')} = {raw}"
    formula += f", clamped to {least}..{most}" if raw != low else ""
    if not setting.rules.estimate_from_profiled:
        return _estimate_limit(low, low, formula, used=fields)
    if inputs.sliding_window:
        return _estimate_limit(least, most, formula, used=fields, missing=("profiled tokens",))
    high = most if inputs.max_total_tokens is not None else _unrounded(inputs, tokens, context)
    missing = () if low == high else ("profiled tokens",)
    return _estimate_limit(low, high, formula, used=fields, missing=missing)


def _tokens_and_context(inputs: CapacityInputs) -> tuple[int | None, int | None]:
    return inputs.max_total_num_tokens, inputs.context_length


def _unrounded(inputs: CapacityInputs, tokens: int, context: int) -> int:
    return _clamped(tokens + inputs.page_size - 1, context)


def _clamped(tokens: int, context: int) -> int:
    raw = int(tokens / context * _estimate("requests_per_context"))
    return max(min(raw, _estimate("most")), _estimate("least"))


def _estimate(name: str) -> int:
    constants = table("estimate")
    return int(constants[name]) if isinstance(constants, dict) else 0


def _estimate_limit(
    low: int,
    high: int,
    formula: str,
    *,
    used: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
) -> Limit:
    name = LimitName.TOKEN_ESTIMATE
    return Limit(name=name, low=low, high=high, formula=formula, inputs=used, missing=missing)


def _half_of_tokens(inputs: CapacityInputs) -> Limit:
    tokens = inputs.max_total_num_tokens
    name, field = LimitName.HALF_OF_TOKENS, ("max_total_num_tokens",)
    if tokens is None:
        return Limit(name=name, low=0, high=None, formula="tokens // 2", missing=field)
    half = tokens // 2
    formula = f"{tokens} tokens // 2 = {half}"
    return Limit(name=name, low=half, high=half, formula=formula, inputs=field)


def _state_limit(setting: Setting) -> Limit:
    pool, slots = slot_pool(setting), setting.slots
    low = pool.low // slots
    high = None if pool.high is None else pool.high // slots
    result = str(low) if low == high else f"{low} to {'?' if high is None else high}"
    return Limit(
        name=LimitName.STATE_SLOTS,
        low=low,
        high=high,
        formula=f"{pool.formula} // {_slots(slots)} per request = {result}",
        inputs=(*pool.inputs, "radix_cache", "state_strategy", "overlap_schedule"),
        missing=pool.missing,
    )


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"


def _strategy_slots(rules: ReleaseRules, inputs: CapacityInputs) -> Iterator[int]:
    known = inputs.state_strategy
    if known in {None, StateStrategy.NO_BUFFER} and rules.slots.no_buffer is not None:
        yield rules.slots.no_buffer
    # The environment variable lowers the base by one, and no_buffer gets that one back.
    saved = 1 if inputs.skip_decode_lock and rules.slots.skip_decode_lock else 0
    if known in {None, StateStrategy.EXTRA_BUFFER}:
        yield from (count - saved for count in _extra_buffer_slots(rules, inputs))
    if known in {None, StateStrategy.EXTRA_BUFFER_LAZY}:
        lazy = rules.slots.extra_buffer_lazy
        if lazy is not None and inputs.overlap_schedule is not False:
            yield lazy - saved


def _extra_buffer_slots(rules: ReleaseRules, inputs: CapacityInputs) -> Iterator[int]:
    slots = rules.slots
    if slots.extra_buffer is None:
        return
    if slots.extra_buffer_speculative is not None:
        if inputs.speculative or not inputs.arguments_known:
            yield slots.extra_buffer_speculative
        if not inputs.speculative:
            yield slots.extra_buffer
        return
    if inputs.overlap_schedule is not False:
        yield slots.extra_buffer
    if inputs.overlap_schedule is not True and slots.extra_buffer_without_overlap is not None:
        yield slots.extra_buffer_without_overlap
