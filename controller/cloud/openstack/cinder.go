package openstack

import "context"

// Volumes are those of the project. One call for each page.
func (c *Cloud) Volumes(ctx context.Context) ([]Volume, error) {
	found, err := list[struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Status      string `json:"status"`
		Size        int64  `json:"size"`
		Attachments []struct {
			ServerID string `json:"server_id"`
		} `json:"attachments"`
	}](ctx, c, request{service: blockStorage, path: "/volumes/detail"}, "volumes")
	out := make([]Volume, len(found))
	for i, v := range found {
		out[i] = Volume{ID: v.ID, Name: v.Name, Status: v.Status, SizeGiB: v.Size}
		for _, a := range v.Attachments {
			if a.ServerID != "" {
				out[i].AttachedTo = append(out[i].AttachedTo, a.ServerID)
			}
		}
	}
	return out, err
}
