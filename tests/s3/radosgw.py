"""Ceph's radosgw in memory: a monitor, one object store daemon and the gateway. Version 16 takes If-Match without
quotes only. Slow to start (15 s); its Debian packages are not among those that the tests install."""

import os
import shutil
import subprocess
import uuid

from servers import KEY, LOOPBACK, SECRET, Server, free_ports

PROGRAMS = ("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool")
PACKAGES = "radosgw ceph-mon ceph-osd"

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = {monitors}
public addr = {host}
cluster addr = {host}
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {directory}/$name.keyring
run dir = {directory}/run
log file = {directory}/log/$name.log
admin socket = {directory}/run/$name.asok
pid file =
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
osd class load list = *
osd class default list = *
[mon.a]
mon data = {directory}/mon
[osd.0]
osd data = {directory}/osd0
[client.rgw]
rgw frontends = beast endpoint={host}:{port}
rgw enable usage log = false
rgw enable ops log = false
"""


def missing_programs():
    return [name for name in PROGRAMS if shutil.which(name) is None]


class RadosGW(Server):
    PATIENCE = 120

    def launch(self):
        self.port, v2, v1 = free_ports(3)
        monitors = f"[v2:{LOOPBACK}:{v2},v1:{LOOPBACK}:{v1}]"
        at, fsid = self.directory, str(uuid.uuid4())
        for folder in ("mon", "osd0", "run", "log"):
            (at / folder).mkdir()
        config = at / "ceph.conf"
        config.write_text(
            CONFIGURATION.format(fsid=fsid, monitors=monitors, host=LOOPBACK, directory=at, port=self.port)
        )
        admin = ["ceph", "-k", at / "client.admin.keyring"]

        self._run(
            "ceph-authtool", "--create-keyring", at / "keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"
        )
        rights = [word for part in ("mon", "osd", "mgr") for word in ("--cap", part, "allow *")]
        self._run("ceph-authtool", at / "keyring", "--gen-key", "-n", "client.admin", *rights)
        shutil.copy(at / "keyring", at / "client.admin.keyring")
        self._run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", monitors, at / "monmap")
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", at / "monmap", "--keyring", at / "keyring", "-c", config)
        self.spawn(["ceph-mon", "-i", "a", "-c", config, "-f"])

        osd = str(uuid.uuid4())
        self._run(*admin, "osd", "new", osd)
        keyring = self._run(*admin, "auth", "get-or-create", "osd.0", "mon", "allow profile osd", "osd", "allow *")
        (at / "osd.0.keyring").write_text(keyring)
        keyring = self._run(*admin, "auth", "get-or-create", "client.rgw", "mon", "allow rw", "osd", "allow rwx")
        (at / "client.rgw.keyring").write_text(keyring)
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd, "-c", config)
        self.spawn(["ceph-osd", "-i", "0", "-c", config, "-f"])
        self.spawn(["radosgw", "-n", "client.rgw", "-c", config, "-f"])

    def prepare(self):
        user = ["--uid", "skerry", "--display-name", "skerry", "--access-key", KEY, "--secret-key", SECRET]
        self._run("radosgw-admin", "-n", "client.rgw", "-c", self.directory / "ceph.conf", "user", "create", *user)
        super().prepare()

    def _run(self, *command):
        env = os.environ | {"CEPH_CONF": str(self.directory / "ceph.conf")}
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, env=env)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout
