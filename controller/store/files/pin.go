package files

import "fmt"

// Pin keeps the blobs that named lists from being removed until release is called,
// once. named is called while none can be removed, so that what it finds on record
// is still there. Uploads and Collect continue meanwhile.
func (b *Blobs) Pin(named func() ([]string, error)) (release func(), err error) {
	b.collecting.RLock()
	defer b.collecting.RUnlock()
	names, err := named()
	if err != nil {
		return nil, fmt.Errorf("listing the package files to keep: %w", err)
	}
	b.pin(names, 1)
	return func() { b.pin(names, -1) }, nil
}

func (b *Blobs) pin(names []string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		if b.pinned[name] += by; b.pinned[name] == 0 {
			delete(b.pinned, name)
		}
	}
}

func (b *Blobs) isPinned(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pinned[name] > 0
}

// Size is the length of a blob in bytes; ErrNoBlob if there is none of this name.
func (b *Blobs) Size(sha256 string) (int64, error) {
	f, err := b.Open(sha256)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading the state of a package file: %w", err)
	}
	return info.Size(), nil
}
