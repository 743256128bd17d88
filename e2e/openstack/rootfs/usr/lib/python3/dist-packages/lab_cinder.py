"""Cinder's own driver that has no store, which can extend a volume too: there is nothing to
do, because the lab makes the disk larger."""
from cinder.tests import fake_driver


class LabDriver(fake_driver.FakeLoggingVolumeDriver):

    def extend_volume(self, volume, new_size):
        """There is nothing to extend."""
