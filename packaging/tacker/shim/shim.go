// Package shim has the files of nodehitch in a VNF package that Tacker itself runs. They
// never change, so packages of all versions work with every python3-nodehitch-tacker: Tacker
// refuses a package whose copy of the driver differs from the installed one. It is data: it
// imports nothing, so that hitchctl may link it.
package shim

import _ "embed"

// Driver is the management driver of Tacker's v1 API.
//
//go:embed nodehitch_mgmt.py
var Driver []byte

// Script is the management script of Tacker's v2 API.
//
//go:embed nodehitch_script.py
var Script []byte

// UserDataV1 and UserDataV2 have the UserData class of a request to either API.
var (
	//go:embed k8s_cluster_user_data.py
	UserDataV1 []byte
	//go:embed user_data_v2.py
	UserDataV2 []byte
)
