package api

import (
	"strings"

	"github.com/google/uuid"
)

// filesystemNamespace can never change once disks exist.
var filesystemNamespace = uuid.MustParse("d229a14c-61e3-4367-8940-de7654ba0dcf")

// FilesystemUUID is the UUID of the filesystem that nodehitch makes on a Cinder
// volume: UUIDv5 (RFC 9562) of the volume id's lower-case text. It is how a disk
// is recognised as ours on any VM, for ever.
func FilesystemUUID(volumeID string) string {
	return uuid.NewSHA1(filesystemNamespace, []byte(strings.ToLower(volumeID))).String()
}
