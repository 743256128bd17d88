# A storage server: the NFS server's package; the volume's filesystem, by blkid; three
# files; the volume mounted and the server running, both also after a reboot; the
# exported directories; what the server exports.
Exec { path => ['/usr/sbin', '/usr/bin'] }

package { 'nfs-kernel-server':
  ensure => installed,
}

exec { 'filesystem':
  command => 'mkfs.ext4 -q -U UUIDVALUE DEVICE',
  unless  => 'test "$(blkid --probe --match-tag UUID --output value DEVICE)" = UUIDVALUE',
  provider => shell,
}

$files = [
  '/etc/systemd/system/volume.mount', '/DEVICEDROPIN',
  '/etc/exports.d/nodehitch.exports',
]
$files.each |$path| {
  file { $path:
    source => "/root/policy/files${path}",
    mode   => '0644',
    notify => Exec['reload'],
  }
}

exec { 'reload':
  command     => 'systemctl daemon-reload',
  refreshonly => true,
}

service { ['volume.mount', 'nfs-server.service']:
  ensure   => running,
  enable   => true,
  provider => systemd,
  require  => [Package['nfs-kernel-server'], Exec['filesystem', 'reload']],
}

file { ['/volume/nfs', '/volume/nfs/pv1', '/volume/nfs/pv2', '/volume/nfs/pv3']:
  ensure  => directory,
  require => Service['volume.mount'],
}

File['/volume/nfs/pv1', '/volume/nfs/pv2', '/volume/nfs/pv3'] {
  owner => 'nobody',
  group => 'nogroup',
  mode  => 'u+rwx',
}

exec { 'exported':
  command  => 'exportfs -ra',
  unless   => 'test "$(exportfs -s | grep -c "^/volume/nfs/pv[123]  10\.10\.0\.0/24(")" = 3',
  provider => shell,
  require  => [Service['nfs-server.service'], File['/volume/nfs/pv1', '/volume/nfs/pv2', '/volume/nfs/pv3']],
}
