// Package pemtext reads every block of a PEM text, or says which one cannot be read.
//
// Go's readers pass over what they cannot read. Files that were joined without a line break
// between them (`cat a.crt b.crt` if a.crt has none at its end), or that begin with a byte
// order mark, lose certificates in that way.
package pemtext

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
)

var (
	begin         = []byte("-----BEGIN ")
	byteOrderMark = []byte("\ufeff")
)

// Blocks are all blocks of the text, in its order. Other text is allowed before and between
// them, as certificate tools write it. The error names the first block that is damaged, and
// contains nothing of its content.
func Blocks(text []byte) ([]*pem.Block, error) {
	blocks, _, err := read(text)
	return blocks, err
}

// read is Blocks, with the line of each.
func read(text []byte) (blocks []*pem.Block, lines []int, err error) {
	text = bytes.ReplaceAll(text, byteOrderMark, nil)
	for at := bytes.Index(text, begin); at >= 0; {
		end := len(text)
		next := bytes.Index(text[at+len(begin):], begin)
		if next >= 0 {
			next += at + len(begin)
			end = next
		}
		block, _ := pem.Decode(text[at:end])
		line := 1 + bytes.Count(text[:at], []byte("\n"))
		if block == nil {
			return nil, nil, fmt.Errorf("has a PEM block, number %d in line %d, that is damaged or cut off", len(blocks)+1, line)
		}
		blocks, lines = append(blocks, block), append(lines, line)
		at = next
	}
	return blocks, lines, nil
}

// Plain is Blocks of a text that other programs read too. The error names the first block
// that they pass over.
func Plain(text []byte) ([]*pem.Block, error) {
	blocks, lines, err := read(text)
	if err != nil {
		return nil, err
	}
	rest := text
	for i, block := range blocks {
		var found *pem.Block
		if found, rest = pem.Decode(rest); found == nil || !bytes.Equal(found.Bytes, block.Bytes) {
			return nil, fmt.Errorf("has a PEM block, number %d in line %d, that other programs pass over: "+
				"each -----BEGIN and -----END needs a line of its own, and the file no byte order mark", i+1, lines[i])
		}
	}
	return blocks, nil
}

// Normal is a text with the same blocks that other programs read too: the text itself if it
// is Plain.
func Normal(text []byte) ([]byte, error) {
	if _, err := Plain(text); err == nil {
		return text, nil
	}
	blocks, err := Blocks(text)
	if err != nil {
		return nil, err
	}
	var normal bytes.Buffer
	for _, block := range blocks {
		if err := pem.Encode(&normal, block); err != nil {
			return nil, fmt.Errorf("has a PEM block that cannot be written: %w", err)
		}
	}
	return normal.Bytes(), nil
}

// KeyPair is tls.X509KeyPair with each certificate of the chain.
func KeyPair(certificates, key []byte) (tls.Certificate, error) {
	for _, text := range []*[]byte{&certificates, &key} {
		normal, err := Normal(*text)
		if err != nil {
			return tls.Certificate{}, err
		}
		*text = normal
	}
	return tls.X509KeyPair(certificates, key)
}

// LoadKeyPair is tls.LoadX509KeyPair with each certificate of the chain.
func LoadKeyPair(certificateFile, keyFile string) (tls.Certificate, error) {
	certificates, err := os.ReadFile(certificateFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return KeyPair(certificates, key)
}
