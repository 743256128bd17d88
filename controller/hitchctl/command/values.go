package command

import (
	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The values of the API that commands take, for their completion and for selectors.
var (
	roles        = texts(api.RoleStorage, api.RoleMaster, api.RoleWorker, api.RoleRegistry)
	nodeStates   = texts(api.NodeExpected, api.NodeEnrolled, api.NodeLost, api.NodeRevoked)
	operations   = texts(api.Instantiate, api.Heal, api.Scale, api.Terminate, api.ChangeExtConn, api.ModifyInfo, api.ChangeVnfPkg)
	phases       = texts(api.PhaseStart, api.PhaseEnd)
	scaleTypes   = texts(api.ScaleOut, api.ScaleIn)
	permitStates = texts(api.PermitNone, api.PermitGranted, api.PermitStarted, api.PermitFormatted, api.PermitInterrupted, api.PermitAdopted)
	scopes       = texts(api.ScopeOperator, api.ScopeViewer, api.ScopeTacker)
)

func texts[T ~string](values ...T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// completeFlag offers fixed values of a flag for completion by the shell.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
