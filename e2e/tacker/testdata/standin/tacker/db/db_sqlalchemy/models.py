class VnfLcmOpOccs:
    pass
