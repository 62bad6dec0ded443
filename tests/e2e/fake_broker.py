# SPDX-License-Identifier: Apache-2.0
"""fake_broker.py MODE PATH [PID]: a broker of host pids that does something wrong; PATH.ready tells that it listens."""
import os
import signal
import socket
import struct
import sys
import time

OTHER_USER = 61001
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def reply(pid, magic=b"HPID", version=1, status=0):
    return magic + struct.pack(">HHI", version, status, pid)


def peer_pid(client):
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[0]


def answer(mode, client, pid):
    own = peer_pid(client)
    replies = {
        "good": reply(pid),
        "own": reply(own),
        "peer": reply(own),
        "magic": reply(own, magic=b"DIPH"),
        "version": reply(own, version=2),
        "status": reply(own, status=1),
        "zero": reply(0),
        "huge": reply(0x80000000),
        "short": reply(own)[:11],
        "long": reply(own) + b"!",
        "hangup": b"",
    }
    if mode == "silent":
        time.sleep(10)
    elif mode == "trickle":
        for byte in reply(own):
            client.sendall(bytes([byte]))
            time.sleep(0.2)
    else:
        client.sendall(replies[mode])


def main():
    mode, path = sys.argv[1:3]
    pid = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    os.chmod(path, 0o666)
    open(path + ".ready", "w").close()
    if mode == "peer":  # whose socket it is, is whoever begins to listen
        os.seteuid(OTHER_USER)
    server.listen(16)
    while True:
        client, _ = server.accept()
        if os.fork() == 0:
            try:
                client.recv(8)
                answer(mode, client, pid)
            except OSError:
                pass  # it has lost patience
            os._exit(0)
        client.close()


main()
