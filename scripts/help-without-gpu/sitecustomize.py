"""Read by Python at its start where this folder is on PYTHONPATH: in the build of an image, and nowhere else.

vLLM tells its flags only once it knows a device, and a build has no GPU. The flags are the same for all devices.
"""

from importlib.util import find_spec

if find_spec("vllm"):
    from vllm.platforms.interface import UnspecifiedPlatform

    UnspecifiedPlatform.device_type = "cuda"
