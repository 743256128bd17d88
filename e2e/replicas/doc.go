// Package replicas tests controllers that share an etcd, while machines, processes and the
// network between them fail: three controllers and three members of etcd, each in a network
// namespace of its own, clients that write and read all the time, and many agents. Each of
// them knows the URLs of all controllers. Which controllers answer is observed.
package replicas
