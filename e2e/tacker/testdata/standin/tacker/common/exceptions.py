class MgmtDriverOtherError(Exception):
    def __init__(self, error_message):
        super().__init__("An error occurred in MgmtDriver: %s." % error_message)


class NotFound(Exception):
    pass


class VnfPackageNotFound(NotFound):
    pass


class VnfPackageVnfdNotFound(NotFound):
    pass
