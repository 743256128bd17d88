class VNFAttribute:
    table = "vnf_attributes"
