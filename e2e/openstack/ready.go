package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

func (c *Cloud) connects(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := c.lab.Dial(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// answers: any answer but that of a service that is in trouble.
func (c *Cloud) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := c.client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode >= http.StatusInternalServerError {
			text, _ := io.ReadAll(answer.Body)
			return fmt.Errorf("%s: %s: %s", url, answer.Status, text)
		}
		return nil
	}
}

// listed makes functions that ask a list of services whether the one of a name is up: it has
// to have been heard of since this cloud was started.
func (c *Cloud) listed(path, base, field string) func(string) func(context.Context) error {
	return func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			var list map[string][]struct{ Binary, Status, State string }
			if err := c.Admin.Call(ctx, http.MethodGet, "http://"+base+path, nil, &list); err != nil {
				return err
			}
			for _, s := range list[field] {
				if s.Binary == name && (s.State == "up" || s.Status == "up") {
					return nil
				}
			}
			return fmt.Errorf("%s is not up yet", name)
		}
	}
}

// hasPool: Cinder's scheduler has heard from the store.
func (c *Cloud) hasPool(ctx context.Context) error {
	var list struct{ Pools []struct{ Name string } }
	if err := c.Admin.Call(ctx, http.MethodGet, "http://"+host+":8776/v3/{project}/scheduler-stats/get_pools", nil, &list); err != nil {
		return err
	}
	if len(list.Pools) == 0 {
		return errors.New("the scheduler of Cinder knows no store yet")
	}
	return nil
}
