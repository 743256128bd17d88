// Package enroll tests how a machine comes in and how it is put out: user_data
// through real cloud-init on a systemd-nspawn machine, enrollment, a controller
// that dies and comes back, revocation.
package enroll
