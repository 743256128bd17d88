package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// maxMetadata bounds the metadata, which a tenant can make large.
const maxMetadata = 4 << 20

// cloudInit reads the instance data that cloud-init writes at every boot.
func (m *Machine) cloudInit() (string, error) {
	var data struct {
		V1 struct {
			InstanceID string `json:"instance_id"`
		} `json:"v1"`
	}
	path := m.path("run/cloud-init/instance-data.json")
	if err := readJSON(path, &data); err != nil {
		return "", err
	}
	if data.V1.InstanceID == "" {
		return "", fmt.Errorf("%s has no v1.instance_id", path)
	}
	return data.V1.InstanceID, nil
}

// metadata reads OpenStack's metadata service, in the format of every Nova since 2012.
func (m *Machine) metadata(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.MetadataURL, nil)
	if err != nil {
		return "", err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s", m.MetadataURL, resp.Status)
	}
	return serverID(resp.Body, m.MetadataURL)
}

// serverID is the uuid of a meta_data.json.
func serverID(r io.Reader, from string) (string, error) {
	var data struct {
		UUID string `json:"uuid"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxMetadata)).Decode(&data); err != nil {
		return "", fmt.Errorf("reading %s: %w", from, err)
	}
	if data.UUID == "" {
		return "", fmt.Errorf("%s has no uuid", from)
	}
	return data.UUID, nil
}

// dmi reads what the hypervisor put into the SMBIOS table; Nova's libvirt driver
// puts the server id there.
func (m *Machine) dmi() (string, error) {
	content, err := os.ReadFile(m.path("sys/class/dmi/id/product_uuid"))
	if err != nil {
		return "", err
	}
	if id := strings.TrimSpace(string(content)); id != "" {
		return id, nil
	}
	return "", errors.New("product_uuid is empty")
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxMetadata)).Decode(v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
