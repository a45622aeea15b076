"""usage: inner.py FROM TO

Turns the configuration that Docker gave to runc for a container into one for a
container inside of another: the same filter, capabilities and masked paths.
"""
import json
import sys

with open(sys.argv[1]) as f:
    config = json.load(f)
config["process"]["args"] = ["bash", "/programs/inside"]
config["root"] = {"path": "rootfs"}
config["linux"]["cgroupsPath"] = "/inner"
config["linux"].pop("resources", None)
config.pop("hooks", None)
# What takes CAP_SYS_RESOURCE, which the outer container does not have.
config["process"].pop("rlimits", None)
config["process"].pop("oomScoreAdj", None)
ours = ("/repo", "/programs")
config["mounts"] = [m for m in config["mounts"] if m["type"] != "bind" or m["destination"] in ours]
for mount in config["mounts"]:
    if mount["destination"] in ours:
        mount["source"] = mount["destination"]
assert config["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
with open(sys.argv[2], "w") as f:
    json.dump(config, f)
