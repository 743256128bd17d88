package openstack

import (
	"context"
	"path/filepath"
	"strings"
)

// password of every account of the cloud, the database and the metadata proxy: the files
// below rootfs name it as well.
const password = "lab"

// The services in the order in which they are needed: the database by those of the first
// stage, the message queue besides by all others.
var (
	firstStage  = []string{"keystone", "placement", "glance-api"}
	secondStage = []string{
		"nova-conductor", "nova-compute", "nova-scheduler", "nova-api", "nova-metadata", "neutron-server",
		"cinder-api", "cinder-scheduler", "cinder-volume", "heat-engine", "heat-api", "heat-api-cfn",
	}
)

// describeServices says how each service is started and when it is ready. Those without an
// API of their own are asked for at the API that knows them.
func (c *Cloud) describeServices() []*Service {
	compute := c.listed("/os-services", host+":8774/v2.1", "services")
	volume := c.listed("/os-services", host+":8776/v3/{project}", "services")
	return []*Service{
		c.service("mariadb", mariadb(), nil, c.connects("127.0.0.1:3306")),
		c.service("rabbitmq", []string{"/usr/lib/rabbitmq/bin/rabbitmq-server"}, rabbitmq(), c.connects("127.0.0.1:5672")),
		c.service("keystone", uwsgi("5000", "keystone-wsgi-public", "--config-file /etc/lab/keystone.conf"), nil, c.answers(AuthURL)),
		c.service("placement", uwsgi("8778", "placement-api"), []string{"OS_PLACEMENT_CONFIG_DIR=/etc/lab/placement"}, c.answers("http://"+host+":8778/")),
		c.service("glance-api", configured("glance-api", "glance"), nil, c.answers("http://"+host+":9292/")),
		c.service("neutron-server", configured("neutron-server", "neutron"), nil, c.answers("http://"+host+":9696/")),
		c.service("nova-api", configured("nova-api", "nova"), nil, c.answers("http://"+host+":8774/")),
		c.service("nova-metadata", configured("nova-api", "nova", "nova-metadata"), nil, c.answers("http://"+host+":8775/")),
		c.service("nova-conductor", configured("nova-conductor", "nova"), nil, compute("nova-conductor")),
		c.service("nova-scheduler", configured("nova-scheduler", "nova"), nil, compute("nova-scheduler")),
		c.service("nova-compute", configured("nova-compute", "nova"), nil, compute("nova-compute")),
		c.service("cinder-api", configured("cinder-api", "cinder"), nil, c.answers("http://"+host+":8776/")),
		c.service("cinder-scheduler", configured("cinder-scheduler", "cinder"), nil, volume("cinder-scheduler")),
		c.service("cinder-volume", configured("cinder-volume", "cinder"), nil, c.hasPool),
		c.service("heat-engine", configured("heat-engine", "heat"), nil, c.listed("/services", host+":8004/v1/{project}", "services")("heat-engine")),
		c.service("heat-api", configured("heat-api", "heat"), nil, c.answers("http://"+host+":8004/")),
		c.service("heat-api-cfn", configured("heat-api-cfn", "heat"), nil, c.answers("http://"+host+":8000/")),
	}
}

func (c *Cloud) service(name string, argv, env []string, ready func(context.Context) error) *Service {
	return &Service{Name: name, LogFile: filepath.Join(c.logDir(), name+".log"), argv: argv, env: env, ready: ready, cloud: c}
}

// configured is a service that reads the common file and others.
func configured(program string, files ...string) []string {
	argv := []string{program, "--config-file", "/etc/lab/common.conf"}
	for _, name := range files {
		argv = append(argv, "--config-file", "/etc/lab/"+name+".conf")
	}
	return argv
}

// uwsgi runs a service that brings no server of its own. Without "Connection: close" its
// clients wait for more.
func uwsgi(port, script string, arguments ...string) []string {
	argv := []string{
		"uwsgi", "--plugins", "http,python3", "--http-socket", host + ":" + port, "--wsgi-file", "/usr/bin/" + script,
		"--master", "--processes", "1", "--threads", "4", "--enable-threads", "--lazy-apps", "--need-app", "--die-on-term",
		"--buffer-size", "65535", "--http-chunked-input", "--add-header", "Connection: close", "--disable-logging",
	}
	if len(arguments) > 0 {
		argv = append(argv, "--pyargv", strings.Join(arguments, " "))
	}
	return argv
}

// mariadb syncs nothing: after a kill it has to start from nothing.
func mariadb() []string {
	return []string{
		"mariadbd", "--no-defaults", "--user=root", "--datadir=/var/lib/mysql", "--socket=/run/mysqld/mysqld.sock",
		"--bind-address=127.0.0.1", "--max-connections=400", "--innodb-buffer-pool-size=128M", "--character-set-server=utf8mb3",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync",
		"--skip-log-bin", "--performance-schema=OFF",
	}
}

// rabbitmq's queues need not outlive it.
func rabbitmq() []string {
	return []string{
		"RABBITMQ_NODENAME=cloud@localhost", "RABBITMQ_MNESIA_BASE=/run/rabbitmq", "RABBITMQ_CONFIG_FILE=/etc/lab/rabbitmq",
		"RABBITMQ_ENABLED_PLUGINS_FILE=/etc/lab/no-plugins", "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
	}
}

// startServices starts all of them, as many at a time as their needs allow.
func (c *Cloud) startServices(ctx context.Context) error {
	if err := c.launch("mariadb", "rabbitmq"); err != nil {
		return err
	}
	if err := c.Service("mariadb").waitReady(ctx); err != nil {
		return err
	}
	if err := c.launch(firstStage...); err != nil {
		return err
	}
	if err := c.Service("rabbitmq").waitReady(ctx); err != nil {
		return err
	}
	if err := c.launch(secondStage...); err != nil {
		return err
	}
	for _, s := range c.services {
		if err := s.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) launch(names ...string) error {
	for _, name := range names {
		if err := c.Service(name).launch(); err != nil {
			return err
		}
	}
	return nil
}
