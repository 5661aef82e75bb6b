"""What lies beside a managed cluster as resources of their own: maintenance windows and role assignments, as pure functions.

Stand-in: nothing here asks Azure. Rules of windows: azure-aks-docs at fb060abe, planned-maintenance. Deliberately not modelled:
that anything is upgraded in a window, what a role allows, and whether a role, principal or scope outside the sandbox is there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks import azure_types
from sandbox.clouds.azure_errors import AzureError, invalid, missing

if TYPE_CHECKING:
    from sandbox.clouds.azure_rules import Body

API_VERSION: Final = "2022-04-01"
_WINDOWS: Final = ("default", "aksManagedAutoUpgradeSchedule", "aksManagedNodeOSUpgradeSchedule")
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HOURS: Final = (4, 24)


def check_window(name: str, body: Body) -> None:
    """Refuse what cannot be a maintenance window.

    Raises:
        AzureError: the first rule that it breaks.
    """
    if name not in _WINDOWS:
        raise invalid("maintenanceConfiguration.name", f"'{name}' is not one of {', '.join(_WINDOWS)}")
    window: dict[str, Any] = body.get("maintenanceWindow") or {}
    if name == "default":
        return
    if not window:
        raise missing("properties.maintenanceWindow")
    schedules = {key: value for key, value in (window.get("schedule") or {}).items() if value}
    if len(schedules) != 1:
        raise invalid(
            "maintenanceWindow.schedule", "exactly one of daily, weekly, absoluteMonthly and relativeMonthly is required"
        )
    day = (schedules.get("weekly") or {}).get("dayOfWeek")
    if day is not None and day not in azure_types.enums()["WeekDay"]:
        raise invalid("maintenanceWindow.schedule.weekly.dayOfWeek", f"'{day}' is not a day of the week")
    if not _HOURS[0] <= (window.get("durationHours") or 0) <= _HOURS[1]:
        raise invalid("maintenanceWindow.durationHours", f"it must be {_HOURS[0]} to {_HOURS[1]}")
    if not re.fullmatch(r"\d\d:\d\d", str(window.get("startTime"))):
        raise invalid("maintenanceWindow.startTime", f"'{window.get('startTime')}' is not a time, HH:MM")


def check_assignment(name: str, body: Body, old: Body | None) -> None:
    """Refuse what cannot be a role assignment, and any change of one.

    Raises:
        AzureError: the first rule that it breaks.
    """
    if not _GUID.fullmatch(name):
        raise AzureError(400, "InvalidRoleAssignmentId", f"The role assignment ID '{name}' is not valid. It must be a GUID.")
    if not _GUID.fullmatch(str(body.get("principalId"))):
        raise AzureError(400, "InvalidPrincipalId", "A valid principal ID must be provided for role assignment.")
    if not str(body.get("roleDefinitionId")).rpartition("/roleDefinitions/")[0]:
        raise AzureError(400, "InvalidRoleDefinitionId", f"The role definition ID '{body.get('roleDefinitionId')}' is not valid.")
    if old is not None and any(old.get(key) != body.get(key) for key in ("principalId", "roleDefinitionId")):
        message = "Tenant ID, application ID, principal ID, and scope are not allowed to be updated."
        raise AzureError(400, "RoleAssignmentUpdateNotPermitted", message)
