package persistentvolume

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxNames is how many names a pass resolves, and atOnce how many at a time.
const (
	maxNames = 64
	atOnce   = 8
)

// thisMachine resolves names as they are given on this machine. It is strict: half an answer
// must not hide an address.
var thisMachine = &net.Resolver{PreferGo: true, StrictErrors: true}

// lookup compares names of NFS servers, as this machine resolves them, with the addresses of
// the storage server.
type lookup struct {
	resolver *net.Resolver
	limit    time.Duration
	servers  []string
}

// byName reports whether the volume's server is a name. So is what only the C library reads
// as an address, such as 10.2565: it does not resolve.
func (v volume) byName() bool {
	server := v.source().server
	_, isAddress := addressOf(server)
	return server != "" && !isAddress
}

// used describes those of the volumes that are or may be on the storage server. A name that
// does not resolve may be the server's: what is deleted cannot be brought back, and a
// refusal names the volume and what to do.
func (l *lookup) used(ctx context.Context, bound []volume) []string {
	known := l.resolve(ctx, bound)
	var used []string
	for _, v := range bound {
		server := v.source().server
		addresses, err := known[server].addresses, known[server].err
		if err != nil {
			used = append(used, fmt.Sprintf("%s, and may be on the storage server, because its server's name %s does not resolve on this master "+
				"(%v): delete the claim, or make the name resolve here, for example in /etc/hosts", v.use(), server, err))
		} else if i := slices.IndexFunc(addresses, l.isServer); i >= 0 {
			used = append(used, fmt.Sprintf("%s, and its server %s is %s", v.use(), server, addresses[i].Unmap()))
		}
	}
	return used
}

func (l *lookup) isServer(a netip.Addr) bool {
	return slices.ContainsFunc(l.servers, func(s string) bool { return sameAddress(s, a.String()) })
}

// resolved is what a name is: addresses, or why that is not known.
type resolved struct {
	addresses []netip.Addr
	err       error
}

// resolve resolves each name once, all of them within the limit.
func (l *lookup) resolve(ctx context.Context, volumes []volume) map[string]*resolved {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	known := map[string]*resolved{}
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, v := range volumes {
		name := v.source().server
		if known[name] != nil {
			continue
		}
		r := &resolved{}
		if known[name] = r; len(known) > maxNames {
			r.err = fmt.Errorf("the agent resolves %d names and no more", maxNames)
			continue
		}
		all.Go(func() error {
			r.addresses, r.err = l.resolver.LookupNetIP(ctx, "ip", name)
			return nil
		})
	}
	_ = all.Wait() // the errors are in known
	return known
}
