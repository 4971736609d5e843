"""Describe the environment of the interpreter that runs this file, as one line of JSON.

Standard library only and Python 3.6 syntax, so that any server's interpreter can run it, also as
`python - < agent.py`. It writes nothing, imports torch and triton only in forked children with a
time limit, and never imports sglang. What cannot be read becomes {"error": "..."} in its place.
It is one file, longer than its neighbours, because it travels to other machines over stdin.
"""

import os
import sys

# A file named torch.py in the working directory must not pass for the installed package.
if sys.path[0] in ("", os.path.dirname(os.path.realpath(sys.argv[0]))):
    del sys.path[0]

import ctypes
import importlib.util
import json
import platform
import re
import resource
import select
import shutil
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional, Sequence

Json = Dict[str, object]

LIMIT_S = 40.0
SHARED_MEMORY = "/dev/shm"  # noqa: S108  (measured, not written)
MEMORY_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
SMI_QUERY = "index,name,uuid,pci.bus_id,driver_version,memory.total,memory.used,compute_cap"
PACKAGES = (
    ("torch", ("torch",)),
    ("triton", ("triton", "pytorch-triton", "pytorch-triton-rocm")),
    ("sglang", ("sglang",)),
    ("sgl_kernel", ("sglang-kernel", "sgl-kernel")),
    ("flashinfer", ("flashinfer-python", "flashinfer")),
    ("flashinfer_cubin", ("flashinfer-cubin",)),
    ("flashinfer_jit_cache", ("flashinfer-jit-cache",)),
    ("transformers", ("transformers",)),
    ("nccl", ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")),
)
MOE_LAYOUTS = ("srt/layers/moe/fused_moe_triton", "srt/layers/moe/moe_runner/triton_utils")
CACHES = (
    ("triton", "TRITON_CACHE_DIR", "~/.triton/cache", ""),
    ("flashinfer", "FLASHINFER_WORKSPACE_BASE", "~", ".cache/flashinfer"),
    ("sglang", "SGLANG_CACHE_DIR", "~/.cache/sglang", ""),
    ("deep_gemm", "SGLANG_DG_CACHE_DIR", None, ""),
    ("torchinductor", "TORCHINDUCTOR_CACHE_DIR", None, ""),
    ("torch_extensions", "TORCH_EXTENSIONS_DIR", "~/.cache/torch_extensions", ""),
    ("huggingface", "HF_HOME", "~/.cache/huggingface", ""),
)
TOPOLOGY = {
    0: "internal",
    10: "single switch",
    20: "switches",
    30: "host bridge",
    40: "NUMA node",
    50: "system",
}  # type: Dict[Optional[int], str]
TELLING = re.compile(
    r"(SGLANG|SGL|NCCL|CUDA|TRITON|FLASHINFER|TORCH|TORCHINDUCTOR|PYTORCH|NVIDIA|NVSHMEM|GLOO|UCX"
    r"|HF|DG|HIP|ROCR|OMP|MC|MOONCAKE)_\w+$|(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|VIRTUAL_ENV"
    r"|CONDA_PREFIX|XDG_CACHE_HOME|TMPDIR|MASTER_ADDR|MASTER_PORT|TRANSFORMERS_CACHE)$"
)
SECRET_NAME = re.compile(
    r"(^|_)([A-Z]*KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?|AUTH|COOKIE)($|_)"
)
SECRET_VALUE = re.compile(
    r"(?i)hf_\w{10}|\bsk-\w{10}|A[KS]IA\w{12}|gh[pousr]_\w{10}|eyJ[\w-]{10}|bearer\s|-----BEGIN"
    r"|(key|token|secret|passw(or)?d)[\"']?\s*[:=]"
)
HARMLESS_VALUE = re.compile(r"(?i)(\d{1,6}|\d*\.\d+|true|false|)$")


def reason(error: BaseException) -> str:
    """Return an exception as one line of at most 300 characters."""
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "no message")[:300]


class Child:
    """A function that runs in a forked process and answers in JSON through a pipe."""

    def __init__(self, work: Callable[[], object], limit_s: float) -> None:
        self.limit_s = limit_s
        self.deadline = time.monotonic() + limit_s
        self.pipe, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            serve(work, answer)
        os.close(answer)

    def result(self) -> Json:
        """Wait for the answer, no longer than the limit; a child that is late is killed."""
        chunks = []  # type: List[bytes]
        while True:
            wait_s = max(0.0, self.deadline - time.monotonic())
            if not select.select([self.pipe], [], [], wait_s)[0]:
                # Not reaped: a process that is stuck in the driver ignores even this signal.
                os.kill(self.pid, signal.SIGKILL)
                return {"error": "no answer within {:.0f} s".format(self.limit_s)}
            chunk = os.read(self.pipe, 65536)
            if not chunk:
                break
            chunks.append(chunk)
        status = os.waitpid(self.pid, 0)[1]
        if not chunks:
            return {"error": "the interpreter crashed (signal {})".format(status & 127)}
        return json.loads(b"".join(chunks).decode())  # type: ignore[no-any-return]


def serve(work: Callable[[], object], answer: int) -> None:
    """Run the work of a child with its output silenced, answer, and exit."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        try:
            text = json.dumps(work())
        except BaseException as error:
            text = json.dumps({"error": reason(error)})
        with os.fdopen(answer, "w") as out:
            out.write(text)
    finally:
        os._exit(0)


def torch_facts() -> Json:
    """Import torch and say what it was built for and which GPUs it sees."""
    import torch

    facts = {"imported_version": str(torch.__version__)}  # type: Json
    facts["cuda_version"] = torch.version.cuda
    facts["hip_version"] = getattr(torch.version, "hip", None)
    facts["cuda_available"] = bool(torch.cuda.is_available())
    if facts["cuda_available"]:
        nccl = torch.cuda.nccl.version() if torch.version.cuda else None
        facts["nccl_version"] = ".".join(map(str, nccl)) if isinstance(nccl, tuple) else nccl
        facts["devices"] = [torch_device(torch, i) for i in range(torch.cuda.device_count())]
    return facts


def torch_device(torch: object, index: int) -> Json:
    """Return one GPU from torch's device properties."""
    properties = torch.cuda.get_device_properties(index)  # type: ignore[attr-defined]
    return {
        "index": index,
        "name": properties.name,
        "sm": "{}.{}".format(properties.major, properties.minor),
        "memory_bytes": properties.total_memory,
        "sm_count": properties.multi_processor_count,
        "shared_memory_per_block_optin_bytes": getattr(
            properties, "shared_memory_per_block_optin", None
        ),
    }


def triton_facts() -> Json:
    """Import triton and say its version as SGLang will see it."""
    import triton

    return {"imported_version": str(triton.__version__)}


def number(function: object, *arguments: object) -> Optional[int]:
    """Call a C function that writes an int to its last or first argument; None if it fails.

    libcuda takes the result first and NVML takes it last; `...` marks the place.
    """
    value = ctypes.c_int()
    filled = [ctypes.byref(value) if argument is ... else argument for argument in arguments]
    return None if function(*filled) else value.value  # type: ignore[operator]


def cuda_facts() -> Json:
    """Ask libcuda for the visible GPUs; it creates no context, so it takes no GPU memory."""
    cuda = ctypes.CDLL("libcuda.so.1")
    code = cuda.cuInit(0)
    if code:
        raise OSError("cuInit failed with CUDA error {}".format(code))
    devices = []  # type: List[Json]
    for index in range(number(cuda.cuDeviceGetCount, ...) or 0):
        device = number(cuda.cuDeviceGet, ..., index)
        name, bus = ctypes.create_string_buffer(128), ctypes.create_string_buffer(32)
        memory = ctypes.c_size_t()
        cuda.cuDeviceGetName(name, 128, device)
        cuda.cuDeviceGetPCIBusId(bus, 32, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        major, minor, count, smem = (
            number(cuda.cuDeviceGetAttribute, ..., key, device) for key in (75, 76, 16, 97)
        )
        fact = {"index": index, "name": name.value.decode(), "sm": "{}.{}".format(major, minor)}
        fact.update(memory_bytes=memory.value, sm_count=count)
        fact.update(shared_memory_per_block_optin_bytes=smem, pci_bus_id=pci(bus.value.decode()))
        devices.append(fact)
    version = number(cuda.cuDriverGetVersion, ...) or 0
    driver = "{}.{}".format(version // 1000, version % 1000 // 10)
    return {"cuda_driver_version": driver, "devices": devices}


def pci(bus_id: str) -> str:
    """Return a PCI address as the kernel writes it: NVML's domain has four digits too many."""
    return re.sub("^0000(?=[0-9a-f]{4}:)", "", bus_id.lower())


class NvmlPci(ctypes.Structure):
    """nvmlPciInfo_t; `bus_id` has an eight-digit domain."""

    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("ids", ctypes.c_uint * 5),
        ("bus_id", ctypes.c_char * 32),
    ]


class NvmlProcess(ctypes.Structure):
    """nvmlProcessInfo_v2_t, as nvmlDeviceGetComputeRunningProcesses_v2 and _v3 fill it."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instances", ctypes.c_uint * 2),
    ]


def nvml_facts() -> Json:
    """Ask NVML for all installed GPUs, the processes on them and the links between them."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    code = nvml.nvmlInit_v2()
    if code:
        raise OSError("nvmlInit failed with NVML error {}".format(code))
    text = ctypes.create_string_buffer(96)
    facts = {"devices": [], "processes": [], "links": []}  # type: Dict[str, List[Json]]
    handles = []
    for index in range(number(nvml.nvmlDeviceGetCount_v2, ...) or 0):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
            handles.append((index, handle))
            facts["devices"].append(nvml_device(nvml, index, handle))
            facts["processes"] += nvml_processes(nvml, index, handle)
    for place, (first, one) in enumerate(handles):
        for second, other in handles[place + 1 :]:
            level = number(nvml.nvmlDeviceGetTopologyCommonAncestor, one, other, ...)
            nvlink, peer = (number(nvml.nvmlDeviceGetP2PStatus, one, other, k, ...) for k in (2, 0))
            link = {"first": first, "second": second, "path": TOPOLOGY.get(level)}  # type: Json
            link.update(nvlink=nvlink == 0, peer_access=peer == 0)
            facts["links"].append(link)
    nvml.nvmlSystemGetDriverVersion(text, 96)
    return dict(facts, driver_version=text.value.decode())


def nvml_device(nvml: ctypes.CDLL, index: int, handle: ctypes.c_void_p) -> Json:
    """Return one GPU from NVML: what torch and libcuda do not say as well."""
    name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    memory, address = (ctypes.c_ulonglong * 3)(), NvmlPci()
    nvml.nvmlDeviceGetName(handle, name, 96)
    nvml.nvmlDeviceGetUUID(handle, uuid, 96)
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(address))
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    links = [number(nvml.nvmlDeviceGetNvLinkState, handle, link, ...) for link in range(18)]
    bus_id = pci(address.bus_id.decode())
    return {
        "index": index,
        "installed_index": index,
        "name": name.value.decode(),
        "uuid": uuid.value.decode(),
        "sm": "{}.{}".format(major.value, minor.value),
        "memory_bytes": memory[0],
        "used_bytes": memory[2],
        "pci_bus_id": bus_id,
        "pcie_generation": number(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle, ...),
        "pcie_width": number(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle, ...),
        "nvlink_count": links.count(1),
        "numa_node": file_number("/sys/bus/pci/devices/{}/numa_node".format(bus_id)),
    }


def nvml_processes(nvml: ctypes.CDLL, index: int, handle: ctypes.c_void_p) -> List[Json]:
    """Return the processes that hold memory of one GPU."""
    count, found = ctypes.c_uint(256), (NvmlProcess * 256)()
    name = "nvmlDeviceGetComputeRunningProcesses_v"
    ask = getattr(nvml, name + "3", None) or getattr(nvml, name + "2")
    if ask(handle, ctypes.byref(count), found):
        return []
    # Where the driver does not know the memory of a process it says all ones.
    return [
        {
            "pid": p.pid,
            "installed_index": index,
            "used_bytes": p.used if p.used < 2**63 else None,
            "command": command_name(p.pid),
        }
        for p in found[: count.value]
    ]


def command_name(pid: int) -> Optional[str]:
    """Return the name of a process that visibly holds a GPU.

    In a container the driver may speak of process ids of the host: a process with that id here
    is another one, unless it has a GPU device open.
    """
    try:
        links = [
            os.readlink("/proc/{}/fd/{}".format(pid, fd))
            for fd in os.listdir("/proc/{}/fd".format(pid))
        ]
        with open("/proc/{}/comm".format(pid)) as comm:
            return comm.read().strip() if any(x.startswith("/dev/nvidia") for x in links) else None
    except OSError:
        return None


def smi_facts() -> Json:
    """Ask nvidia-smi, the last resort."""
    rows = output(["nvidia-smi", "--query-gpu=" + SMI_QUERY, "--format=csv,noheader,nounits"])
    devices = []  # type: List[Json]
    driver = None
    for row in rows.splitlines():
        index, name, uuid, bus_id, driver, total, used, sm = [
            part.strip() for part in row.split(",")
        ]
        device = {"index": int(index), "name": name, "uuid": uuid, "sm": sm}  # type: Json
        device.update(
            pci_bus_id=pci(bus_id), memory_bytes=int(total) << 20, used_bytes=int(used) << 20
        )
        devices.append(device)
    cuda = re.search(r"CUDA Version: ([\d.]+)", output(["nvidia-smi"]))
    return {
        "driver_version": driver,
        "cuda_driver_version": cuda.group(1) if cuda else None,
        "devices": devices,
    }


def output(command: List[str]) -> str:
    """Return what a program prints, or raise with the first line of its complaint."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise OSError("{} failed: {}".format(command[0], text.strip().splitlines()[:1]))
    return text


def gpus(torch: Json, cuda: Json, nvml: Json, smi: Callable[[], Json]) -> Json:
    """Merge what torch, libcuda and NVML say of the GPUs, best source first.

    torch and libcuda number the GPUs that the environment leaves visible; NVML numbers all that
    are installed, and so do `processes` and `links`.
    """
    answers = [("torch", torch), ("libcuda", cuda), ("nvml", nvml)]
    if not any(answer.get("devices") for _, answer in answers):
        answers.append(("nvidia-smi", smi()))
    errors = [
        "{}: {}".format(name, answer["error"]) for name, answer in answers if "error" in answer
    ]
    sources = [(name, answer) for name, answer in answers if answer.get("devices")]
    if not sources:
        return {"error": "no GPU found ({})".format("; ".join(errors) or "none is visible")}
    merged = {"source": sources[0][0], "errors": errors}  # type: Json
    for key in ("driver_version", "cuda_driver_version", "processes", "links"):
        said = [answer[key] for _, answer in answers if answer.get(key) is not None]
        if said:
            merged[key] = said[0]
    merged["installed_count"] = len(nvml["devices"]) if "devices" in nvml else None  # type: ignore[arg-type]
    merged["devices"] = [
        complete(device, cuda, nvml)
        for device in sources[0][1]["devices"]  # type: ignore[attr-defined]
    ]
    return merged


def complete(device: Json, cuda: Json, nvml: Json) -> Json:
    """Fill what one source left open: libcuda by index, then NVML by PCI address."""
    full = dict(device)
    for answer, key in ((cuda, "index"), (nvml, "pci_bus_id")):
        for other in answer.get("devices", ()):  # type: ignore[attr-defined]
            if full.get(key) is not None and other.get(key) == full[key]:
                full = dict(other, **{k: v for k, v in full.items() if v is not None})
    return full


def packages() -> List[Json]:
    """Return version and path of each package that matters, without importing it."""
    return [package(name, distributions) for name, distributions in PACKAGES]


def package(name: str, distributions: Sequence[str]) -> Json:
    """Describe one package by its metadata and by where Python would find it."""
    fact = {"name": name, "path": folder(name)}  # type: Json
    for distribution in distributions:
        version = installed_version(distribution)
        if version:
            return dict(fact, distribution=distribution, version=version)
    return fact if fact["path"] else dict(fact, error="not installed")


def add_imports(facts: List[Json], imports: Dict[str, Json]) -> None:
    """Add to each package what its import said: the version in memory, or why it fails."""
    for fact in facts:
        answer = imports.get(str(fact["name"]), {})
        for key in ("imported_version", "error"):
            if key in answer and "error" not in fact:
                fact[key] = answer[key]


def folder(name: str) -> Optional[str]:
    """Return where a top-level package lies."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    if places:
        return places[0]
    return spec.origin if spec else None


def installed_version(distribution: str) -> Optional[str]:
    """Return a version from the metadata folders on sys.path (Python 3.6 and 3.7 too)."""
    try:
        from importlib import metadata

        return metadata.version(distribution)
    except ImportError:
        pass
    stem = distribution.replace("-", "_").lower() + "-"
    for place in sys.path:
        for entry in names(place):
            if entry.lower().startswith(stem) and entry.endswith((".dist-info", ".egg-info")):
                return entry.rpartition(".")[0].split("-")[1]
    return None


def names(place: str) -> List[str]:
    """Return the sorted entries of a folder, none if it cannot be read."""
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


def moe_configs() -> Json:
    """Count the MoE kernel configs that SGLang would look through."""
    override = os.environ.get("SGLANG_MOE_CONFIG_DIR")
    sglang = folder("sglang")
    roots = [("bundled", os.path.join(sglang, layout)) for layout in MOE_LAYOUTS] if sglang else []
    roots = [root for root in roots if os.path.isdir(os.path.join(root[1], "configs"))]
    if override is not None:
        roots.append(("override", override))
    return {"override": override, "folders": [moe_folder(*root) for root in roots]}


def moe_folder(origin: str, root: str) -> Json:
    """Count the files of one `configs` folder and of each Triton folder in it."""
    place = os.path.join(root, "configs")
    fact = {"origin": origin, "path": place, "layout": os.path.basename(root)}  # type: Json
    if not os.path.isdir(place):
        return dict(fact, error="no such folder")
    entries = names(place)
    fact["loose_files"] = sum(entry.endswith(".json") for entry in entries)
    fact["triton"] = [
        {
            "version": entry[len("triton_") :].replace("_", "."),
            "files": sum(name.endswith(".json") for name in names(os.path.join(place, entry))),
        }
        for entry in entries
        if entry.startswith("triton_")
    ]
    return fact


def variables() -> List[Json]:
    """Return the telling environment variables, secrets masked."""
    telling = sorted(name for name in os.environ if TELLING.match(name))
    return [{"name": name, "value": masked(name, os.environ[name])} for name in telling]


def masked(name: str, value: str) -> str:
    """Return a value that is safe to show; passwords in URLs are cut out."""
    secret = SECRET_NAME.search(name) and not HARMLESS_VALUE.match(value)
    if secret or SECRET_VALUE.search(value):
        return "[redacted]"
    return re.sub("://[^/@ ]*@", "://[redacted]@", value)[:4096]


def system() -> Json:
    """Describe the machine or container."""
    limits = [file_number(path) for path in MEMORY_LIMITS]
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "memory_limit_bytes": next((n for n in limits if n is not None and n < 2**60), None),
        "in_container": os.path.exists("/.dockerenv") or "KUBERNETES_SERVICE_HOST" in os.environ,
    }


def file_number(path: str) -> Optional[int]:
    """Return the number that a file of the kernel holds; None for none or -1 (not known)."""
    try:
        with open(path) as stream:
            value = int(stream.read())
            return value if value >= 0 else None
    except (OSError, ValueError):
        return None


def shared_memory() -> Json:
    """Return size and free space of /dev/shm, through which NCCL and the ranks talk."""
    space = os.statvfs(SHARED_MEMORY)
    total, free = (blocks * space.f_frsize for blocks in (space.f_blocks, space.f_bavail))
    return {"path": SHARED_MEMORY, "total_bytes": total, "free_bytes": free}


def limits() -> List[Json]:
    """Return the resource limits; -1 is unlimited."""
    kinds = ("NOFILE", "MEMLOCK", "NPROC", "STACK", "AS", "CORE")
    pairs = [
        (kind.lower(), resource.getrlimit(getattr(resource, "RLIMIT_" + kind))) for kind in kinds
    ]
    return [{"name": kind, "soft": soft, "hard": hard} for kind, (soft, hard) in pairs]


def tools() -> List[Json]:
    """Say which build tools kernels compiled at run time would find."""
    search = [os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]
    places = {
        name: shutil.which(name, path=search[0]) for name in ("nvcc", "ninja", "g++", "nvidia-smi")
    }
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    places["nvcc"] = places["nvcc"] or shutil.which("nvcc", path=os.path.join(home, "bin"))
    facts = [{"name": name, "path": path} for name, path in sorted(places.items())]  # type: List[Json]
    for fact in facts:
        if fact["path"] is None:
            fact["error"] = "not on PATH"
            if shutil.which(str(fact["name"]), path=search[1]):
                fact["error"] = "not on PATH, though it lies in {}".format(search[1])
        elif fact["name"] == "nvcc":
            release = re.search(r"release ([\d.]+)", output([str(fact["path"]), "--version"]))
            fact["version"] = release.group(1) if release else None
    return facts


def caches() -> List[Json]:
    """Say where compiled kernels and weights are kept and whether they can be."""
    places = [(row[0], os.environ.get(row[1]) or row[2], row[3]) for row in CACHES]
    return [cache(name, os.path.join(base, tail)) for name, base, tail in places if base]


def cache(name: str, place: str) -> Json:
    """Describe one cache folder; a missing one is writable if it can be made."""
    path = os.path.expanduser(place).rstrip("/")
    fact = {"name": name, "path": path, "exists": os.path.isdir(path)}  # type: Json
    while not os.path.exists(path) and path not in ("", "/"):
        path = os.path.dirname(path)
    space = os.statvfs(path or ".")
    fact.update(
        writable=os.access(path or ".", os.W_OK), free_bytes=space.f_bavail * space.f_frsize
    )
    return fact


def python() -> Json:
    """Describe this interpreter."""
    return {
        "executable": sys.executable,
        "version": platform.python_version(),
        "prefix": sys.prefix,
        "virtual_environment": sys.prefix != sys.base_prefix,
    }


def main(limit_s: float) -> Json:
    """Collect everything, side by side, each part in a child that cannot hold up the rest."""
    imports = (torch_facts, triton_facts, cuda_facts, nvml_facts)
    parts = (python, system, packages, moe_configs, variables, shared_memory, limits, tools, caches)
    children = [(work.__name__, Child(work, limit_s)) for work in imports + parts]
    answers = {name: child.result() for name, child in children}
    torch, triton, cuda, nvml = [answers.pop(work.__name__) for work in imports]
    document = {"schema_version": 1}  # type: Json
    document.update(answers)
    document["torch"] = {key: value for key, value in torch.items() if key != "devices"}
    document["gpus"] = gpus(torch, cuda, nvml, lambda: Child(smi_facts, 10.0).result())
    if isinstance(document["packages"], list):
        add_imports(document["packages"], {"torch": torch, "triton": triton})
    return document


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(float(sys.argv[1]) if sys.argv[1:] else LIMIT_S)) + "\n")
    sys.stdout.flush()
    os._exit(0)
