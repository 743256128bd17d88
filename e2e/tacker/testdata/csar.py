"""What Tacker's v2 API gives a script of a VNF package: a copy of the package, without its Files."""

import contextlib
import os
import shutil
import tempfile


@contextlib.contextmanager
def copied(said):
    """Make tmp_csar_dir such a copy of what it was."""
    with tempfile.TemporaryDirectory() as folder:
        said["tmp_csar_dir"] = shutil.copytree(said["tmp_csar_dir"], os.path.join(folder, "csar"), ignore=shutil.ignore_patterns("Files"))
        yield
