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

// AdoptCommand is the command that keeps the filesystem with a UUID on a volume, as an agent's message
// offers it, without backquotes.
func AdoptCommand(volumeID, filesystemUUID string) string {
	return "hitchctl volume adopt " + volumeID + " --filesystem-uuid " + filesystemUUID
}

// AdoptableIn is the UUID of the filesystem that a message offers to keep on a volume, "" for none.
func AdoptableIn(message, volumeID string) string {
	const length = 36
	_, text, _ := strings.Cut(message, "`"+AdoptCommand(volumeID, ""))
	if len(text) <= length || text[length] != '`' || uuid.Validate(text[:length]) != nil {
		return ""
	}
	return text[:length]
}
