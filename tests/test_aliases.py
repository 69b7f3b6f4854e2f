"""Any name that people bring leads to the counter they mean, or to the truth about it."""

from __future__ import annotations

import pytest

from perfzero.aliases import ALIASES, DCGM_FIELDS, known_names, nearest_names, resolve
from perfzero.counters import BY_NAME, COUNTERS, Counter
from perfzero.words.said import Said


@pytest.mark.parametrize("name", BY_NAME)
def test_a_canonical_name_is_itself_and_needs_no_note(name: str) -> None:
    found = resolve(name)

    assert found.counter is BY_NAME[name]
    assert (found.known, found.note) == (True, "")


@pytest.mark.parametrize(
    ("name", "counter", "said"),
    [
        # on no chip
        ("inst_executed", "sm_issue", "Kepler to Pascal"),
        ("inst_issued", "sm_issue", "Kepler to Pascal"),
        ("inst_issued2", "sm_issue", "dual issue is gone"),
        ("sm__inst_executed_op_fadd_pred_on.sum", "fma_active", "No chip from Turing to Rubin"),
        ("sm__inst_executed_op_tensor_fma.sum", "tensor_active", "No chip from Turing to Rubin"),
        ("sm__inst_executed_op_tensor_wmma.sum", "tensor_active", "No chip from Turing to Rubin"),
        ("sm__inst_executed_op_tensor_fma_h100.sum", "tensor_active", "No chip from Turing to Rubin"),
        ("pcie__bytes_read.sum", "pcie_rx_bytes", "pcie__read_bytes"),
        ("pcie__bytes_write.sum", "pcie_tx_bytes", "pcie__write_bytes"),
        # real, but not to be sampled
        ("lts__t_sectors_op_read.sum", "l2_sectors", "PM sampling refuses"),
        ("lts__t_sectors_op_write.sum", "l2_sectors", "PM sampling refuses"),
        ("sm__sass_thread_inst_executed_op_fadd_pred_on.sum", "fma_active", "SASS"),
        ("sm__sass_thread_inst_executed_op_dadd_pred_on.sum", "fp64_active", "SASS"),
        # right, in CUPTI's spelling
        ("dram__bytes_read.sum", "dram_read_bytes", "CUPTI"),
        ("dram__bytes_op_read.sum", "dram_read_bytes", "CUPTI"),
        ("dram__bytes_write.sum.per_second", "dram_write_bytes", "CUPTI"),
        ("sm__cycles_active.avg", "sm_active", "CUPTI"),
        ("sm__cycles_active", "sm_active", "CUPTI"),
        ("TPC.TriageCompute.sm__cycles_active.avg", "sm_active", "CUPTI"),
        ("sm__cycles_elapsed.sum", "sm_active", "denominator"),
        ("pcie__read_bytes.sum", "pcie_rx_bytes", "CUPTI"),
        # DCGM, old and new
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active", "1002"),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", "sm_active", "1002"),
        ("dcgm_fi_prof_pipe_tensor_active", "tensor_active", "1004"),
        ("1002", "sm_active", "DCGM_FI_PROF_SM_UTIL_RATIO"),
        ("203", "smi_utilization", "GPU_UTIL"),
        ("112", "capped_power", "capped_thermal, capped_hardware"),
        # NVML
        ("NVML_GPM_METRIC_SM_UTIL", "sm_active", "GPM metric 2"),
        ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", "pcie_rx_bytes", "GPM metric 21"),
        # Nsight Systems
        ("SMs Active", "sm_active", "Nsight"),
        ("SMs Active [Throughput %]", "sm_active", "Nsight"),
        ("GPC Clock Frequency [MHz]", "gpc_clock", "Nsight"),
        ("Async Copy Engine Active 1 [Throughput %]", "ce_active", "Nsight"),
        ("NVLink RX Responses User Data [Throughput %]", "nvlink_rx_bytes", "four parts"),
        # nvidia-smi
        ("utilization.gpu", "smi_utilization", "some kernel was running"),
        ("clocks_event_reasons.sw_power_cap", "capped_power", "One bit"),
        # OpenTelemetry
        ("gpu.sm.active", "sm_active", "OpenTelemetry"),
        ("hw.gpu.io", "pcie_rx_bytes", "nvlink_tx_bytes"),
    ],
)
def test_a_name_from_elsewhere_leads_to_its_counter(name: str, counter: str, said: str) -> None:
    found = resolve(name)

    assert found.counter is BY_NAME[counter]
    assert found.known
    assert said in found.note


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("l1_tex__t_sectors_op_read.sum", "l2_sectors"),
        ("utilization.memory", "not of its bandwidth"),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", "not of its bandwidth"),
        ("tlb_miss", "No chip has a public counter"),
        ("pcie__bytes.sum", "pcie_rx_bytes"),
    ],
)
def test_a_name_that_no_counter_answers_is_understood_all_the_same(name: str, said: str) -> None:
    found = resolve(name)

    assert found.counter is None
    assert found.known
    assert said in found.note


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sm_actve", "sm_active"),
        ("DCGM_FI_PROF_SM_ACTIV", "DCGM_FI_PROF_SM_ACTIVE"),
        ("dram_reads_bytes", "dram_read_bytes"),
        ("utilisation.gpu", "utilization.gpu"),
    ],
)
def test_a_misspelt_name_gets_the_nearest_first(name: str, nearest: str) -> None:
    found = resolve(name)

    assert found.counter is None
    assert not found.known
    assert found.nearest[0] == nearest
    assert found.nearest == nearest_names(name)


@pytest.mark.parametrize(
    "name", ["", "   ", "7", "99999", "__", ".", "sm__", "qqqqqqqq", "\x00", "[%]", "é" * 50]
)
def test_a_name_that_means_nothing_is_not_explained_away(name: str) -> None:
    found = resolve(name)

    assert (found.counter, found.known) == (None, False)


@pytest.mark.parametrize("name", known_names())
def test_every_known_name_resolves_however_it_is_written(name: str) -> None:
    plain = resolve(name)

    assert plain.known
    for spelling in (name.upper(), name.lower(), f"  {name} "):
        found = resolve(spelling)
        assert (found.counter, found.note) == (plain.counter, plain.note)


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_what_the_table_says_about_other_tools_can_be_asked(counter: Counter) -> None:
    for name in (
        *counter.cupti,
        *(DCGM_FIELDS[counter.dcgm] if counter.dcgm is not None else ()),
        *filter(None, (counter.nsight, counter.otel)),
    ):
        found = resolve(name)
        assert found.counter is not None
        assert counter.name in (found.counter.name, *found.note.replace(",", "").replace(".", "").split())


def test_an_alias_leads_to_a_counter_that_exists_and_hides_none() -> None:
    assert [a.name for a in ALIASES if a.counter is not None and a.counter not in BY_NAME] == []
    assert [a.name for a in ALIASES if a.name in BY_NAME] == []
    assert len({a.name.lower() for a in ALIASES}) == len(ALIASES)


def test_an_alias_without_a_counter_says_why() -> None:
    assert [a.name for a in ALIASES if a.counter is None and not a.note] == []


def test_a_note_is_a_sentence_that_can_be_told_in_another_language() -> None:
    assert [a.name for a in ALIASES if a.note and not isinstance(a.note, Said)] == []


def test_a_note_is_made_of_sentences() -> None:
    notes = {a.note for a in ALIASES if a.note}

    assert [n for n in notes if not n.endswith(".") or n.split(".")[0].endswith((";", ","))] == []
