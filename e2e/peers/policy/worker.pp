# A worker of a cluster with a storage server: the NFS client is installed.
package { 'nfs-common':
  ensure => installed,
}
