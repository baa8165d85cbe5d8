"""The node under siege: `python -m tests.soak.siege_node FOLDER`."""

from __future__ import annotations

import sys

from bandstand.bus import Service, UnixAdapter, serve
from bandstand.isolation import isolated
from tests.soak.siege_cast import Hermit, Ledger, Sloth


def main() -> int:
    adapter = UnixAdapter(f"{sys.argv[1]}/bus.sock")
    return serve(
        Service(load=lambda: [Ledger, Sloth, isolated(Hermit)], adapters=[adapter]), sys.stdout, sys.stderr
    )


if __name__ == "__main__":
    sys.exit(main())
