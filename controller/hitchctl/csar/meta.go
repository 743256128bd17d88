package csar

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// MetaFile says what a package has; it lists itself not.
const MetaFile = "TOSCA-Metadata/TOSCA.meta"

// contentTypes are those of files whose names end so.
var contentTypes = map[string]string{
	".yaml": "application/yaml", ".yml": "application/yaml", ".json": "application/json",
	".py": "text/x-python", ".sh": "application/x-sh", ".pem": "application/x-pem-file", ".crt": "application/x-x509-ca-cert",
}

// meta is TOSCA.meta with these files, in this order, each with its SHA-256.
func meta(files []file) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: nodehitch\nEntry-Definitions: %s\n", definitionsDir+entryFile)
	for _, f := range files {
		kind := contentTypes[path.Ext(f.name)]
		if kind == "" {
			kind = "application/octet-stream"
		}
		fmt.Fprintf(&b, "\nName: %s\nContent-Type: %s\nAlgorithm: SHA-256\nHash: %x\n", f.name, kind, f.sha256)
	}
	return b.Bytes()
}

// Block is one part of a TOSCA.meta: its names and values.
type Block map[string]string

// Meta is what TOSCA.meta says.
type Meta struct {
	// Head is the first block, with Entry-Definitions.
	Head Block
	// Files are the blocks of files, in their order.
	Files []Block
}

// ParseMeta reads a TOSCA.meta: blocks of `name: value` lines with blank lines between them;
// a line that begins with a blank continues the value before it.
func ParseMeta(text []byte) (*Meta, fault.List) {
	var faults fault.List
	m := &Meta{}
	block, last := Block{}, ""
	end := func() {
		switch {
		case len(block) == 0:
		case m.Head == nil:
			m.Head = block
		default:
			m.Files = append(m.Files, block)
		}
		block, last = Block{}, ""
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimRight(line, "\r")
		name, value, ok := strings.Cut(line, ":")
		_, twice := block[name]
		switch {
		case strings.TrimSpace(line) == "":
			end()
		case line[0] == ' ' && last != "":
			block[last] += line[1:]
		case !ok || name != strings.TrimSpace(name) || name == "":
			faults = append(faults, fault.Root.Fault(fmt.Sprintf("line %d: expected `name: value`, found %.60q", i+1, line)))
		case twice:
			faults = append(faults, fault.Root.Fault(fmt.Sprintf("line %d: %s is given twice; is the blank line between two files missing?", i+1, name)))
		default:
			block[name], last = strings.TrimSpace(value), name
		}
	}
	end()
	if m.Head == nil {
		m.Head = Block{}
	}
	return m, faults
}
