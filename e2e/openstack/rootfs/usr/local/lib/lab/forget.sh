#!/bin/sh
# Takes back what the services have said of their being alive, so that at the next start
# no service counts as up that was only up recently.
set -eu
mariadb <<-'SQL'
	update nova.services set last_seen_up = '2000-01-01 00:00:00', updated_at = '2000-01-01 00:00:00';
	update cinder.services set updated_at = '2000-01-01 00:00:00';
	delete from heat.service;
SQL
