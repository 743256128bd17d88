class VnfLcmOpOccs:
    table = "occurrences"


class VnfPackageVnfd:
    table = "package_vnfds"


class VnfPackage:
    table = "packages"
