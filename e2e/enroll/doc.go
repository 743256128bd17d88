// Package enroll tests the enrollment and the revocation of a machine: user_data through
// real cloud-init on a systemd-nspawn machine, a controller that is killed and comes back,
// revocation and enrolling again.
package enroll
