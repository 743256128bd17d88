package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file with its name on pages.
type asset struct {
	content   []byte
	mediaType string
}

// assets are the files by the names that pages use; names leads from a file to that name.
var assets, assetNames = readAssets()

func readAssets() (map[string]asset, map[string]string) {
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	byName, names := map[string]asset{}, map[string]string{}
	list, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic("page: the embedded assets are always there: " + err.Error())
	}
	for _, entry := range list {
		mediaType := types[path.Ext(entry.Name())]
		if mediaType == "" {
			continue // a license
		}
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic("page: the embedded assets are always there: " + err.Error())
		}
		sum := sha256.Sum256(content)
		base := strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))
		name := base + "-" + hex.EncodeToString(sum[:8]) + path.Ext(entry.Name())
		byName[name], names[entry.Name()] = asset{content, mediaType}, name
	}
	return byName, names
}

// Asset is a file that pages refer to by a name that has its digest, so that it may be kept for
// ever: a style sheet, a script or an image. It is open to everybody. ok is false for any other
// name.
func Asset(file string) (content []byte, mediaType string, ok bool) {
	a, ok := assets[file]
	return a.content, a.mediaType, ok
}

// assetPath is where a page finds a file.
func assetPath(file string) string { return strings.Replace(PathAsset, ":file", assetNames[file], 1) }
