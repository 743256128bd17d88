#!/bin/sh
# Takes back what the services have said of their being alive, so that at the next start
# nobody is believed to be up who has only been up lately.
set -eu
mariadb <<-'SQL'
	update nova.services set last_seen_up = '2000-01-01 00:00:00', updated_at = '2000-01-01 00:00:00';
	update cinder.services set updated_at = '2000-01-01 00:00:00';
	delete from heat.service;
SQL
