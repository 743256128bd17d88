package api

// NodeURN begins the URI in a node's certificate; the node's id follows.
const NodeURN = "urn:nodehitch:node:"

// NonceKey is the item of a server's Nova metadata that contains its nonce.
const NonceKey = "nodehitch_nonce"
