package document

import (
	"net/netip"
	"regexp"
	"strings"
	"unicode"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

var (
	bootstrapToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	publicKeyHash  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// maxServerName is the longest name that Nova takes.
const maxServerName = 255

// cluster checks what the program reads that joins this machine, which may put it into an
// argv.
func (c *checker) cluster(s *api.ClusterSection, role api.Role, at fault.At) {
	c.member(role, at)
	c.endpoint(at.Key("endpoint"), s.Endpoint)
	if s.ExternalAddress != "" {
		c.address(at.Key("externalAddress"), s.ExternalAddress)
	}
	c.network(at.Key("podCIDR"), s.PodCIDR)
	c.network(at.Key("serviceCIDR"), s.ServiceCIDR)
	c.token(at.Key("bootstrapToken"), s.BootstrapToken)
	if s.CACertificateHash != "" && !publicKeyHash.MatchString(s.CACertificateHash) {
		c.say(at.Key("caCertificateHash"), "expected sha256: and 64 hexadecimal digits in lower case")
	}
	if s.CertificateKey != "" && !sha256Hex.MatchString(s.CertificateKey) {
		c.say(at.Key("certificateKey"), "expected 64 hexadecimal digits in lower case") // not repeated
	}
	if s.CertificateKey != "" {
		c.master(role, at.Key("certificateKey"))
	}
	if s.Initialize {
		c.master(role, at.Key("initialize"))
	}
	c.servers(s.Masters, at.Key("masters"))
}

func (c *checker) clusterMembers(s *api.ClusterMembersSection, at fault.At) {
	if s.Members == nil { // an empty list removes each: it has to be meant
		c.say(at.Key("members"), "expected a list, [] for none")
	}
	ids, tokens := map[string]bool{}, map[string]bool{}
	for i, m := range s.Members {
		here := at.Key("members").Index(i)
		c.server(api.ClusterServer{ServerID: m.ServerID, Name: m.Name, Addresses: m.Addresses}, ids, here)
		c.member(m.Role, here)
		c.token(here.Key("bootstrapToken"), m.BootstrapToken)
		id, _, _ := strings.Cut(m.BootstrapToken, ".")
		if tokens[id] { // it is the name of the Secret
			c.say(here.Key("bootstrapToken"), "has the id of another member's token")
		}
		tokens[id] = true
	}
}

func (c *checker) clusterAccess(s *api.ClusterAccessSection, at fault.At) {
	if !s.Role.Valid() {
		c.say(at.Key("role"), "expected tacker or cluster-admin")
	}
}

// member says that the section is not for this role.
func (c *checker) member(role api.Role, at fault.At) {
	if role != api.RoleMaster && role != api.RoleWorker {
		c.say(at.Key("role"), "expected master or worker: no other server is a member of a cluster")
	}
}

func (c *checker) servers(servers []api.ClusterServer, at fault.At) {
	if servers == nil {
		c.say(at, "expected a list, [] for none")
	}
	ids := map[string]bool{}
	for i, s := range servers {
		c.server(s, ids, at.Index(i))
	}
}

// server checks one, and that its id is not among those of before.
func (c *checker) server(s api.ClusterServer, ids map[string]bool, at fault.At) {
	c.uuid(at.Key("serverId"), s.ServerID)
	if ids[s.ServerID] {
		c.say(at.Key("serverId"), "is given twice")
	}
	ids[s.ServerID] = true
	if strings.TrimSpace(s.Name) == "" || len(s.Name) > maxServerName || strings.ContainsFunc(s.Name, unicode.IsControl) {
		c.say(at.Key("name"), "expected a server's name on one line, of at most 255 bytes")
	}
	for i, address := range s.Addresses {
		c.address(at.Key("addresses").Index(i), address)
	}
}

func (c *checker) address(at fault.At, address string) {
	if a, err := netip.ParseAddr(address); err != nil || !hostAddress(a) {
		c.say(at, "expected an IP address of a server, such as 10.10.0.5")
	}
}

func (c *checker) endpoint(at fault.At, endpoint string) {
	to, err := netip.ParseAddrPort(endpoint)
	if err != nil || to.Port() == 0 || !hostAddress(to.Addr()) {
		c.say(at, "expected address:port, such as 10.10.0.5:6443 or [fd00::5]:6443")
	}
}

func (c *checker) network(at fault.At, cidr string) {
	_, err := grammar.CIDR(cidr)
	c.must(at, err)
}

func (c *checker) token(at fault.At, token string) {
	if !bootstrapToken.MatchString(token) {
		c.say(at, "expected a bootstrap token: 6 and 16 lower-case letters and digits, with a dot between") // not repeated
	}
}

// hostAddress reports whether other machines can reach a host by the address.
func hostAddress(a netip.Addr) bool {
	return a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast()
}
