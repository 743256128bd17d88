package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The lengths of a bootstrap token's two parts; their letters are a-z and 0-9.
const (
	tokenID     = 6
	tokenSecret = 16
)

// bootstrapToken is the token with which a server joins: the same in every plan, and unlike
// that of any other server.
func bootstrapToken(secret []byte, serverID string) string {
	number := new(big.Int).SetBytes(derive(secret, "bootstrap-token/"+serverID))
	text := strings.Repeat("0", tokenID+tokenSecret) + number.Text(36)
	text = text[len(text)-tokenID-tokenSecret:]
	return text[:tokenID] + "." + text[tokenID:]
}

// certificateKey is the key with which these masters exchange the certificates of the control
// plane. It is another one once a master has come or gone.
func certificateKey(secret []byte, masters []api.ClusterServer) string {
	var ids []string
	for _, m := range masters { // ordered by id
		ids = append(ids, m.ServerID)
	}
	return hex.EncodeToString(derive(secret, "certificate-key/"+strings.Join(ids, ",")))
}

func derive(secret []byte, purpose string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}
