package grammar

import (
	"regexp"
	"strconv"
	"strings"
)

// OldestKubernetes is the oldest minor version of Kubernetes 1 whose kubeadm reads
// kubeadm.k8s.io/v1beta4.
const OldestKubernetes = 31

// longestRepository leaves room for an image's name in the 255 bytes that a reference may have.
const longestRepository = 200

var (
	threeNumbers = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,4})$`)
	pathPart     = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
)

// KubernetesVersion accepts a version of Kubernetes that nodehitch can make a cluster of, such
// as 1.34.4.
func KubernetesVersion(s string) (string, error) {
	if plain := strings.TrimPrefix(s, "v"); plain != s && threeNumbers.MatchString(plain) {
		return "", problem(s, "begins with a v; write %s", plain)
	}
	parts := threeNumbers.FindStringSubmatch(s)
	if parts == nil {
		return "", problem(s, "is not a version of Kubernetes: expected three numbers with dots, such as 1.34.4")
	}
	minor, _ := strconv.Atoi(parts[2]) // threeNumbers has at most five digits
	switch {
	case parts[1] != "1":
		return "", problem(s, "is not a version of Kubernetes 1; expected 1.%d.0 or later", OldestKubernetes)
	case minor < OldestKubernetes:
		return "", problem(s, "is too old: its kubeadm does not read kubeadm.k8s.io/v1beta4; expected 1.%d.0 or later", OldestKubernetes)
	}
	return s, nil
}

// ImageRepository accepts where images are pulled from: host, host:port or either with a path,
// such as registry.k8s.io or registry.example.com:5000/kubernetes. The names of images follow it.
func ImageRepository(s string) (string, error) {
	host, path, hasPath := strings.Cut(s, "/")
	switch {
	case s == "":
		return "", errEmpty
	case strings.Contains(s, "://"):
		return "", problem(s, "begins with a scheme; write host[:port][/path] only")
	case strings.Contains(s, "@"):
		return "", problem(s, "holds a user or a digest; write host[:port][/path] only")
	case host == "":
		return "", problem(s, "has no host before the path")
	case len(s) > longestRepository:
		return "", problem(s, "has %d bytes; at most %d are allowed, because the names of images follow", len(s), longestRepository)
	}
	server, err := RegistryServer(host)
	if err != nil {
		return "", err
	}
	if server.Port == 0 && !strings.ContainsAny(server.Host, ".:") && server.Host != "localhost" {
		return "", problem(s, "has neither a dot nor a port in its host, so engines take it for a part of docker.io; write host:port, or docker.io/%s", s)
	}
	if !hasPath {
		return s, nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if !pathPart.MatchString(part) {
			return "", problem(s, "has the part %s in its path; expected lower-case letters and digits, with single . _ or hyphens between them, and neither a tag nor a slash at the end", Show(part))
		}
	}
	return s, nil
}
