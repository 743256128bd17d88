package openstack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// MetadataAddress is where a machine finds the metadata service. See lab.Spec.Metadata.
var MetadataAddress = netip.MustParseAddr("169.254.169.254")

// metadataURL is Nova's, for a proxy that signs a server's id with the shared secret.
const metadataURL = "http://" + host + ":8775"

// serveMetadata does what Neutron's metadata proxy does: it takes the requests of the
// lab's machines, and says to Nova which server asks, by the address that it asks from.
func (c *Cloud) serveMetadata(ctx context.Context) error {
	if err := c.lab.AddAddress(ctx, netip.PrefixFrom(MetadataAddress, MetadataAddress.BitLen())); err != nil {
		return err
	}
	listener, err := c.lab.Listen(ctx, "tcp", netip.AddrPortFrom(MetadataAddress, 80).String())
	if err != nil {
		return err
	}
	target, err := url.Parse(metadataURL)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	forward := &httputil.ReverseProxy{
		Transport: c.client.Transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	c.proxy = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p, err := c.portOf(r.Context(), "fixed_ips=ip_address%3D"+from)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		identify(r.Header, p.Server, p.Project, from)
		forward.ServeHTTP(w, r)
	})}
	go func() { _ = c.proxy.Serve(listener) }() // until Close
	return nil
}

// port is a port of Neutron that belongs to a server.
type port struct {
	Server  string `json:"device_id"`
	Project string `json:"project_id"`
	Fixed   []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
}

// portOf is the first port that a query finds.
func (c *Cloud) portOf(ctx context.Context, query string) (port, error) {
	var list struct{ Ports []port }
	if err := c.Admin.Call(ctx, http.MethodGet, NeutronURL+"/ports?"+query, nil, &list); err != nil {
		return port{}, err
	}
	for _, p := range list.Ports {
		if p.Server != "" && len(p.Fixed) > 0 {
			return p, nil
		}
	}
	return port{}, fmt.Errorf("no port of a server: %s", query)
}

// identify replaces what a machine may claim about itself by what Neutron knows.
func identify(header http.Header, server, project, address string) {
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write([]byte(server))
	header.Set("X-Instance-ID", server)
	header.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
	header.Set("X-Tenant-ID", project)
	header.Set("X-Forwarded-For", address)
}

// Metadata is what Nova's metadata service has for a server at a path such as
// /openstack/latest/meta_data.json. Other answers than 200 are *StatusErrors.
func (c *Cloud) Metadata(ctx context.Context, server, path string) ([]byte, error) {
	p, err := c.portOf(ctx, "device_id="+url.QueryEscape(server))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metadataURL+path, nil)
	if err != nil {
		return nil, err
	}
	identify(request.Header, server, p.Project, p.Fixed[0].Address)
	answer, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = &StatusError{Method: request.Method, URL: request.URL.String(), Status: answer.StatusCode, Body: string(text)}
	}
	return text, err
}

// UserData is a server's user_data, as its cloud-init finds it.
func (c *Cloud) UserData(ctx context.Context, server string) ([]byte, error) {
	return c.Metadata(ctx, server, "/openstack/latest/user_data")
}

// Address is a server's first fixed address in the lab's network.
func (c *Cloud) Address(ctx context.Context, server string) (netip.Addr, error) {
	p, err := c.portOf(ctx, "device_id="+url.QueryEscape(server))
	if err != nil {
		return netip.Addr{}, err
	}
	address, err := netip.ParseAddr(p.Fixed[0].Address)
	if err == nil && !lab.Subnet.Contains(address) {
		err = fmt.Errorf("server %s: address %s is not of the lab", server, address)
	}
	return address, err
}
