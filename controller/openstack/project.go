package openstack

import "context"

// Project is the id of the project that the credential is for, as its token says: no
// call where the cloud is logged in to.
func (c *Cloud) Project(ctx context.Context) (string, error) { return "", errTODO }
