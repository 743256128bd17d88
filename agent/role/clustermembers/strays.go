package clustermembers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/shared/api"
)

// operatorPatience is how long a member that an operator adds may take until it starts.
const operatorPatience = 10 * time.Minute

// strays plans to remove one etcd member that is of no machine: a master was deleted that was cut
// off while it joined, before it had a Node. As a learner the member keeps every other master from
// joining, and with its vote it counts in the quorum for ever.
//
// A member is of no machine only if nodehitch makes the cluster, and neither a Node, nor a listed
// server, nor one that leaves has its name or one of its addresses. It goes if it has not been
// healthy for etcd.Patience, and the others that vote have a quorum without it. If a master that has
// no Node has no address either, each member may be that master's, and all stay.
//
// If no master of the instance has ever had its address, an operator has added it. It may work all the
// same: only its peers may be able to reach it. Once it has started it stays, and the message names it.
// Until then it has operatorPatience, because kubeadm waits for it.
func (u *update) strays(ctx context.Context, desired *api.NodeConfig) error {
	if desired.Kubernetes == nil || desired.Cluster == nil || slices.ContainsFunc(u.members, u.unknown) {
		return nil
	}
	members, client, err := u.etcdMembers(ctx)
	if client == nil || err != nil {
		return err
	}
	known := u.stay(nil)
	for _, s := range slices.Concat(desired.Cluster.Masters, u.leaving) {
		known = append(known, etcd.Machine{Addresses: s.Addresses})
	}
	machines := etcd.Of(members, known, nil)
	strays := slices.DeleteFunc(slices.Clone(members), func(m etcd.Member) bool {
		return slices.ContainsFunc(machines, func(of etcd.Member) bool { return of.ID == m.ID })
	})
	if len(strays) == 0 {
		return nil
	}
	masters, err := u.kubeadm.Masters()
	if err != nil {
		return err
	}
	maps.Copy(u.sick, u.before)
	u.sick.Examine(ctx, client, members, u.now)
	var problems []error
	for _, m := range strays {
		patience, ours := etcd.Patience, len(etcd.Of([]etcd.Member{m}, []etcd.Machine{{Addresses: masters}}, nil)) > 0
		if !ours {
			patience = operatorPatience
		}
		ill, sick := u.sick[m.ID]
		switch {
		case !sick: // it is somebody's
		case !ours && m.Name != "":
			u.said += fmt.Sprintf("; the etcd member %s is of no server and of no Node, and gives no healthy answer here (%v): if nobody needs it, remove it with `etcdctl member remove %s`", title(m), ill.Why, m.Hex())
		case !u.sick.Lost(m, u.now, patience):
			problems = append(problems, stays(m, "until it has not been healthy for %v: %v", patience, ill.Why))
		case !m.Learner && !u.quorumWithout(m, members):
			problems = append(problems, stays(m, "until enough of the others are healthy"))
		default:
			u.do("etcd", fmt.Sprintf("remove the etcd member %s, which is of no server and of no Node", title(m)), func(ctx context.Context) error {
				if client.Healthy(ctx, m) == nil {
					return stays(m, "because it is healthy again")
				}
				err := client.Remove(ctx, m.ID)
				if errors.Is(err, etcd.ErrQuorum) {
					return stays(m, "until enough of the others run: %v", err)
				}
				return err
			})
			return errors.Join(problems...) // the others are asked again before another one goes
		}
	}
	return errors.Join(problems...)
}

// unknown reports whether a member is a master without a Node and without an address. Its etcd
// member cannot be told from others.
func (u *update) unknown(m api.ClusterMember) bool {
	return m.Role == api.RoleMaster && len(m.Addresses) == 0 && !u.hasNode(m.ServerID)
}

// quorumWithout reports whether the members that vote, but for one, have a quorum.
func (u *update) quorumWithout(gone etcd.Member, all []etcd.Member) bool {
	voters, healthy := 0, 0
	for _, m := range all {
		if m.Learner || m.ID == gone.ID {
			continue
		}
		voters++
		if _, sick := u.sick[m.ID]; !sick {
			healthy++
		}
	}
	return healthy > voters/2
}

func stays(m etcd.Member, format string, args ...any) error {
	return converge.Wait(api.ReasonConverging, "the etcd member %s is of no server and of no Node; it stays %s", title(m), fmt.Sprintf(format, args...))
}

// title is the name of a member, if it has started, and its addresses.
func title(m etcd.Member) string {
	return cmp.Or(m.Name, "without a name") + " at " + strings.Join(m.PeerURLs, ", ")
}
