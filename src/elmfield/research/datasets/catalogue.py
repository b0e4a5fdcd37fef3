"""Every data set: what it is, what it stands for, on which terms, and where its files are.

Status: "paper's own" is the very array the paper names; "same product" the same instrument and
grid, another date or place; "regenerated" made again by the recipe of the paper's source;
"stand-in" another real source, because the paper's own is not to be had; "extra" not in the paper.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from elmfield._array.typing import Array, Progress
from elmfield.research.datasets import navier_stokes, prepare
from elmfield.research.datasets.files import File

Read = Callable[[Sequence[Path], str], Array]
Make = Callable[[Path, Progress | None], None]


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Parameters
    ----------
    name : str
        What it is called here.
    title : str
        What it shows.
    shape : tuple of int
        Of the array that `load` returns, channels included.
    status : {"paper's own", "same product", "regenerated", "stand-in", "extra"}
        What it is to the paper.
    terms : str
        Licence, as far as it is known.
    source : str
        Where it is from.
    files : tuple of File
        What is read.
    paper : str
        The experiment of the paper that it serves; empty for an extra.
    note : str
        How the array was made, and what to mind.
    otherwise : tuple of File
        The same values in other files, read where `files` are not to be had.
    channel_axis : int or None
        -1 where the last axis holds channels.
    periodic : tuple of int
        Axes that repeat.
    prepares : tuple of str
        Words that `load` takes as `prepare`, its default first.
    read, make : callable
        The array of its files; a file in their place, where it can be computed.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    status: str
    terms: str
    source: str
    files: tuple[File, ...]
    read: Read = field(repr=False, compare=False)
    paper: str = ""
    note: str = ""
    otherwise: tuple[File, ...] = ()
    channel_axis: int | None = None
    periodic: tuple[int, ...] = ()
    prepares: tuple[str, ...] = ()
    make: Make | None = field(default=None, repr=False, compare=False)

    @property
    def channels(self) -> int:
        """How many channels; 1 without a channel axis."""
        return 1 if self.channel_axis is None else self.shape[self.channel_axis]


GITHUB = "https://raw.githubusercontent.com"

# --- photographs -------------------------------------------------------------------------------

KODAK = {
    2: "4f4b74a79237e311d72cad958237b5f7088d8bce1c82305ebefe1a70e3022dfd",
    3: "e25ca1ff2f0c0cb5fdfd5f9b0a0bb21ac4c3de3c84a67f35b09a85d3306249db",
    4: "e3b946107c5d3441c022f678d0c3caf1e224d81b1604ba840a4f88e562de61aa",
    5: "10349e963c5c813d327852f82c1795fa4148d69fedffc4c589bee458e3ac3d53",
    6: "363510303b715d4cbc384e1ce227e466b613a09e1b71ae985882bf8e7fbd9b18",
    7: "b77d3f006f42414bb242222e0482e750c0fb9e5ee8d4bed2f6f11c5605fe54a4",
    8: "ba23983c76b4832ee0e8af0592664756841a16779acd69f792e268fb6d13d6e7",
    9: "6a4361c2fc194feb4edaa9f9a4a0620fb9943e460ac7fdf037fb0f6dd6607a7d",
    10: "9dfb70f5867c29ff9ed6313683f19b3d867849e40fbc0c4c54a4a89df341cf23",
    11: "7936814b58b5387fce2e4e2488b4ec830dadd95fa9520f358ddb30990b50f2b6",
    12: "d78c37c2f04f23761ed2367dd77e2db584ddd4c3950833fecf89f199a8126980",
    14: "55a94550ff18f3246c4074fd32b77b0c74447c26b6ad274d564d999c0450ba6e",
    15: "7538cbb80cb9103606c48b806eae57d56c885c7f90b9b3be70a41160f9cbb683",
    16: "a89c7268ccd4718ba424a99fc4643c572cf692ca6eae887185ceb4e9f11d2e54",
    17: "37afcc89fbdcb76d9518e04b2fc011027e2f4cd14b3b2f83cefd721641a47c5b",
    18: "1a9258c365988961d87a0598725b609139c303ad48a5aad6c503c3b1a87849aa",
    20: "3b46c71e3b92a563820ba32936be8330c586c41f938efd94be938386aae4328a",
    21: "ac958597c82073f6bb65129c68f72b651db5b9efd82e11547d07350214bc268b",
    22: "1cee58eb1f2d9c7ebb254d208a03c783ce6cf2c4d8c2cf45e235dd23b4ce1b29",
    23: "e3111a2fd4da24af15d6459ef9eacfe54106b38e27b4a21821b75c3f5d2d5baf",
    24: "1071c68372cc5a01435c2c225a5cf7d4bb803846ec08bb6b3d6721b156d7cb96",
}

KODAK_PAPER = {
    5: "Table of images; PSNR against time",
    8: "Table of images; PSNR against time; training curves",
    20: "Table of images; PSNR against time; training curves; BEAM",
    23: "BEAM",
    24: "Table of images; PSNR against time; training curves",
}


def _kodak(number: int, sha256: str, size: int = 512, suffix: str = "") -> Dataset:
    paper = "" if suffix else KODAK_PAPER.get(number, "")
    crop = "The 512 × 512 pixels in the middle, ITU-R 601 grey, not rounded"
    return Dataset(
        f"kodim{number:02d}{suffix}",
        f"photograph {number} of the Kodak suite",
        (size, size),
        "paper's own" if paper else "extra",
        "released by Eastman Kodak for unrestricted use, as the suite's page states",
        "Kodak Lossless True Color Image Suite (PhotoCD PCD0992), r0k.us/graphics/kodak",
        (
            File(
                f"kodak/kodim{number:02d}.png",
                sha256,
                f"http://r0k.us/graphics/kodak/kodak/kodim{number:02d}.png",
            ),
        ),
        partial(prepare.photograph, size=size),
        paper,
        (crop + (", averaged over 2 × 2" if size == 256 else "") + ". The paper does not say how.")
        if paper
        else crop + ".",
        prepares=("crop", "resize", "whole"),
    )


CAMERAMAN = (
    Dataset(
        "cameraman",
        "the cameraman, 256 × 256",
        (256, 256),
        "paper's own",
        "copyright MIT, terms unclear: not for publication",
        "as shipped with MATLAB; GitHub tueimage/8dc00-mia",
        (
            File(
                "cameraman/cameraman_256.tif",
                "e40b43fe86333b9cf096b38c4876ad16b89e89c9d2e24d26a91527f88c56f72d",
                f"{GITHUB}/tueimage/8dc00-mia/785bdc97daa37bf9b801ac245718e87b606d916c"
                "/data/cameraman.tif",
            ),
        ),
        prepare.plain,
        "CO2 figure and table; training curves; BEAM",
        "The paper's own by name; which file it used is not said.",
    ),
    Dataset(
        "cameraman-512",
        "the cameraman, 512 × 512",
        (512, 512),
        "paper's own",
        "copyright MIT, terms unclear: not for publication",
        "scikit-image 0.17.2, skimage/data/camera.png",
        (
            File(
                "cameraman/cameraman_512.png",
                "361a6d56d22ee52289cd308d5461d090e06a56cb36007d8dfc3226cbe8aaa5db",
                f"{GITHUB}/scikit-image/scikit-image/v0.17.2/skimage/data/camera.png",
            ),
        ),
        prepare.plain,
        "ablation: PSNR against m for several N",
        "The paper's own by name; with a recent scikit-image it may be `camera`.",
    ),
    Dataset(
        "camera",
        "another photograph of a cameraman, 512 × 512",
        (512, 512),
        "stand-in",
        "CC0",
        "scikit-image since 0.18, skimage.data.camera()",
        (
            File(
                "cameraman/camera_skimage_cc0_512.png",
                "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
                "https://gitlab.com/scikit-image/data/-/raw"
                "/5c090b56df3988d988ff97928e2ef2d2cbe38e1b/camera.png",
            ),
        ),
        prepare.plain,
        "ablation: PSNR against m for several N",
        "The one to publish.",
    ),
)

# --- medicine ----------------------------------------------------------------------------------

MRI = (
    Dataset(
        "mri",
        "axial T2-weighted brain slice",
        (512, 512),
        "stand-in",
        "MIT",
        "GitHub SWastling/mri_ft_recon, kspace.mat",
        (
            File(
                "mri/brain_t2_512.png",
                "263c8e96142efc71a9cec5d021cb6798d9e11b75b9124d4824dfb813fecd95f5",
            ),
        ),
        prepare.plain,
        "Table of images: MRI",
        "For a fastMRI knee, which may not be passed on. The inverse transform of the source's "
        "k-space, which is a magnitude image of whole numbers.",
    ),
    Dataset(
        "mri-t1",
        "axial contrast-enhanced T1 brain slice",
        (512, 512),
        "stand-in",
        "CC BY 4.0 by TCIA's page (not checked)",
        "TCIA Vestibular-Schwannoma-SEG; GitHub niivue/niivue-demo-images, dicom/1-066.dcm",
        (
            File(
                "mri/brain_t1_512_tcia_vs-seg-001_066.dcm",
                "0b6a232a207248dcc3e1d863641d8721056a7c5b36d6ff4ac94fc94343f4ad8f",
            ),
        ),
        prepare.plain,
        "Table of images: MRI",
        "For a fastMRI knee, which may not be passed on.",
    ),
    Dataset(
        "brain-volume",
        "contrast-enhanced T1 brain volume, skull-stripped",
        (176, 188, 144),
        "extra",
        "CC BY 4.0 as understood (repository BSD-2-Clause)",
        "figshare 7472168 (Lindner, Kolodziej, Egger 2018); GitHub neurolabusc/niivue-images",
        (
            File(
                "volume/brain_t1_gd_skullstripped_176x188x144.nii.gz",
                "65cf8cff601a428be887483a06e422fa1d879246cc6fa50a04abd7d60b437b8c",
                f"{GITHUB}/neurolabusc/niivue-images/87579783591ae33603452ba48f1e20cc80a860f6"
                "/MR_Gd.nii.gz",
            ),
        ),
        prepare.plain,
    ),
)

# --- satellites --------------------------------------------------------------------------------

MAXAR = "© Maxar/DigitalGlobe sample imagery; repository: research use only"
WV2 = File(
    "worldview/wv2_8band_320_pan_1280.mat",
    "8a33d87006088e3bb0aadd157d59195d2cbab47b97f71efb94fc18568929d5cd",
    f"{GITHUB}/sergiovitale/pansharpening-cnn-python-version"
    "/651cd3c3d48aec2052c8f041248e01ac65b4d6e1/imgs/imgWV2.mat",
)
EIGHT = "Bands: coastal, blue, green, yellow, red, red edge, NIR1, NIR2; 11 bits."
COPERNICUS = "contains modified Copernicus Sentinel data"
TWELVE = "Bands: B01 B02 B03 B04 B05 B06 B07 B08 B8A B09 B11 B12"

WORLDVIEW = (
    Dataset(
        "worldview",
        "WorldView-2 scene of a town, 8 bands",
        (320, 320, 8),
        "stand-in",
        MAXAR,
        "GitHub sergiovitale/pansharpening-cnn-python-version, imgs/imgWV2.mat",
        (WV2,),
        partial(prepare.plain, variable="I_MS"),
        "Table of satellite scenes: WorldView-3 CDG and LAX",
        f"For both commercial scenes of 2048 × 2048 × 8. {EIGHT}",
        channel_axis=-1,
    ),
    Dataset(
        "worldview-pan",
        "the same scene, panchromatic",
        (1280, 1280),
        "extra",
        MAXAR,
        "GitHub sergiovitale/pansharpening-cnn-python-version, imgs/imgWV2.mat",
        (WV2,),
        partial(prepare.plain, variable="I_PAN"),
    ),
    Dataset(
        "worldview3-chip",
        "WorldView-3 chip, 8 bands",
        (32, 32, 8),
        "same product",
        "© Maxar; repository: research use only",
        "GitHub matciotola/Z-PNN, example/WV3_example.mat",
        (
            File(
                "worldview/wv3_8band_32_pan_128.mat",
                "58b02d9247a006915ac168195d94830e202839c76cb16545861556bd16296051",
                f"{GITHUB}/matciotola/Z-PNN/70b40e4ed663405e88357263eead0faf4c8061a2"
                "/example/WV3_example.mat",
            ),
        ),
        partial(prepare.plain, variable="I_MS_LR"),
        "Table of satellite scenes: WorldView-3 CDG and LAX",
        "The only WorldView-3 raster that is public; too small for a benchmark.",
        channel_axis=-1,
    ),
)


def _l1c(name: str, title: str, path: str, sha256: str, file: str, paper: str) -> Dataset:
    return Dataset(
        name,
        title,
        (600, 600, 12),
        "stand-in",
        f"repository GPL-3.0; {COPERNICUS}",
        f"GitHub lanha/DSen2, data/{file}",
        (
            File(
                path,
                sha256,
                f"{GITHUB}/lanha/DSen2/3e3cf72f7f096a89ae1de7121cc547900e975179/data/{file}",
            ),
        ),
        prepare.native_bands,
        paper,
        f"Level L1C, not L2A. {TWELVE}; those of 20 and 60 m are repeated on the 10 m grid.",
        channel_axis=-1,
    )


def _l2a(place: str, title: str, tile: str, sha256: str, note: str = "") -> Dataset:
    return Dataset(
        f"sentinel2-l2a-{place}",
        title,
        (224, 224, 12),
        "same product",
        f"repository Apache-2.0; {COPERNICUS}",
        f"GitHub IBM/terramind, examples/S2L2A/{tile}.tif",
        (
            File(
                f"sentinel2/s2_l2a_12band_224_{tile}.tif",
                sha256,
                f"{GITHUB}/IBM/terramind/main/examples/S2L2A/{tile}.tif",
            ),
        ),
        prepare.plain,
        "Table of satellite scenes: Sentinel-2 L2A",
        f"{TWELVE}; reflectance × 10000.{note}",
        channel_axis=-1,
    )


SENTINEL2 = (
    _l1c(
        "sentinel2",
        "Sentinel-2 scene of a coast, Australia, 12 bands",
        "sentinel2/s2_l1c_12band_600_T49JGM_20171022.mat",
        "9d366b83b486cad3e87860c82f31a871f857e3aba9e3669725e6558c202efc9b",
        "S2B_MSIL1C_20171022_T49JGM.mat",
        "Table of satellite scenes: Sentinel-2 L2A",
    ),
    _l1c(
        "sentinel2-fields",
        "Sentinel-2 scene of fields, 12 bands",
        "sentinel2/s2_l1c_12band_600_T33UUB_20170527.mat",
        "eff62f07f8f6f68ab9f795ea17488a5413b47a2df30b895dd71ec0383a9b09fb",
        "S2A_MSIL1C_20170527_T33UUB.mat",
        "Table of satellite scenes: Sentinel-2 L2A",
    ),
    _l2a(
        "brazil",
        "Sentinel-2 L2A chip of coast and sea, Brazil",
        "282D_485L_3_3",
        "40cf54f662894a42c205876162e796275bfdf614b61905517826ee1b6f7e0d65",
        " Nearest in kind to the paper's island scene.",
    ),
    _l2a(
        "chile",
        "Sentinel-2 L2A chip, Chile",
        "433D_629L_3_1",
        "b8a74c697b07aed11bfe4328329ee7390f246d390d99172485d63d6f04863dd7",
    ),
    _l2a(
        "ontario",
        "Sentinel-2 L2A chip of a bright surface, Ontario",
        "609U_541L_3_0",
        "8a7a222ddf4f64faa8859bd2ac8d22841475f7296045450f3de46b65244a712d",
    ),
    _l2a(
        "tanzania",
        "Sentinel-2 L2A chip, Tanzania",
        "38D_378R_2_3",
        "c31f749d89c5bec772204aa1d0436a490b1a14ead7a152b66884fc247055acdc",
    ),
)

# --- weather -----------------------------------------------------------------------------------

ERA5_TERMS = "Copernicus/ECMWF ERA5, Copernicus licence (CC BY 4.0 since 2025): name the source"
SEASONS = "BEAM: ERA5 table and partitions"


def _weather(name: str, title: str, status: str, files: tuple[File, ...], **words: Any) -> Dataset:
    words = {"shape": (721, 1440), "terms": ERA5_TERMS, "variable": None} | words
    read = partial(prepare.weather, variable=words.pop("variable"))
    return Dataset(name, title, status=status, files=files, read=read, periodic=(1,), **words)


WEATHER = (
    _weather(
        "era5-winter",
        "ERA5 2 m temperature, 2023-01-01 12 UTC",
        "same product",
        (
            File(
                "era5/era5_t2m_20230101T12_winter.nc",
                "2c7160111379de5a2ea2e0384907922b22a14148d62704494e78726feacf19a4",
                f"{GITHUB}/LeonardoLucasdaSilva/climate_ml"
                "/d86f5719dad1ffb3afaabde9e7af911c8095d991/temperature.nc",
            ),
        ),
        source="GitHub LeonardoLucasdaSilva/climate_ml, temperature.nc",
        paper=SEASONS,
        note="Eleven days after the paper's winter date. Kelvin.",
    ),
    _weather(
        "era5-spring",
        "ERA5 2 m temperature, 2023-04-22 03 UTC",
        "same product",
        (
            File(
                "era5/era5_t2m_20230422T03_spring.nc",
                "653709901dcf335139f46324826f59c421ccbd3c92458759e1b37aff445bf709",
                f"{GITHUB}/AliciaXia222/Capstone-Team-Climate-Trace"
                "/e75cacf08c78cd0e055d913203c74672db8836d9/download.nc",
            ),
        ),
        source="GitHub AliciaXia222/Capstone-Team-Climate-Trace, download.nc",
        paper=SEASONS,
        note="Thirteen months after the paper's spring date. Kelvin.",
    ),
    _weather(
        "era5-summer",
        "GFS 2 m temperature, 2020-07-02 00 UTC",
        "stand-in",
        (
            File(
                "era5/gfs_t2m_20200702T00_summer.nc",
                "1ad2b2c16dbf5faff04f4d5b36e10923cad6d7cb3a1cf7b02bd43841e4cce85e",
            ),
        ),
        otherwise=(
            File(
                "era5/gfs_t2m_20200702T00_summer.grib2",
                "408e467be663e4dc602d64f9bd5fef70a76cc0961c208a87d853fdf920dd318f",
                f"{GITHUB}/weatherlayers/weatherlayers-gl"
                "/4cb300ad78aafbe01595f78e5e24568bf39c93e3/data/gfs/tmp/2020070200.grib",
            ),
        ),
        terms="NOAA, public domain",
        source="NOAA GFS 0.25° analysis; GitHub weatherlayers/weatherlayers-gl",
        paper=SEASONS,
        note="Another model on the same grid; steps of 0.01 K. Kelvin.",
    ),
    _weather(
        "era5-autumn",
        "IFS 2 m temperature, 2023-11-25 06 UTC, 0.4°",
        "stand-in",
        (
            File(
                "era5/ifs_open_t2m_20231125T06_autumn_0p4deg.nc",
                "d03bd7cec6f3a1da0fa24510b4a0c3d175a6a496e3da1e3315dad2aa3976b716",
            ),
        ),
        otherwise=(
            File(
                "era5/ifs_open_t2m_msl_20231125T06_autumn_0p4deg.grib2",
                "6ba76692c4266354db94ee4ec891b1eab3f9963a68a62827f9518a30cd953019",
                f"{GITHUB}/colinjcotter/borsukulam/111dc10a7c3aa6f643ef506e4d91c8c1aff5111d"
                "/data.grib2",
            ),
        ),
        variable="t2m",
        shape=(451, 900),
        terms="ECMWF open data, CC BY 4.0",
        source="ECMWF IFS open data; GitHub colinjcotter/borsukulam, data.grib2",
        paper=SEASONS,
        note="Another model on a coarser grid; longitudes start at -180°. Kelvin.",
    ),
    _weather(
        "era5-winter-2012",
        "ERA5 2 m temperature, 2012-12-01 14 UTC",
        "same product",
        (
            File(
                "era5/era5_t2m_20121201T14_winter.nc",
                "0d70a11940ca50b1384beb7290da779db97d34df6def7e9d3425c187f365cc93",
                f"{GITHUB}/juntyr/climet-lab-demo/12c0dd6d6432eb026852a8578ef1843485ebb070/t2m.nc",
            ),
        ),
        source="GitHub juntyr/climet-lab-demo, t2m.nc",
        paper=SEASONS,
        note="A second winter. Kelvin.",
    ),
    _weather(
        "era5-winter-2019",
        "ERA5 2 m temperature, 2019-01-01 12 UTC",
        "same product",
        (
            File(
                "era5/era5_t2m_20190101T12_winter_packed_int16.nc",
                "c32f6b98e5f25de3f82f94b9b44433819db7d148d8572fff398db971b1b307cd",
                f"{GITHUB}/jwagemann/2019_egu_workshop_jupyter_notebooks"
                "/24753c926ed48d7de8249f67a893a4ddcaaa4530/era5_test.nc",
            ),
        ),
        source="GitHub jwagemann/2019_egu_workshop_jupyter_notebooks, era5_test.nc",
        paper=SEASONS,
        note="A third winter, packed into 16 bits. Kelvin.",
    ),
    _weather(
        "t850",
        "ERA5 temperature at 850 hPa, 2023-01-10 23 UTC",
        "extra",
        (
            File(
                "era5/era5_t850_20230110T23.nc",
                "b5586590ae808ed97e16ed4b7be8c3e3cbd626b268d4985a6d84de7652c583d2",
                f"{GITHUB}/spcl/EBCC/c81e0f51140481ed2ad8f4d71638a9d323f2a911/temperature.nc",
            ),
        ),
        source="GitHub spcl/EBCC, temperature.nc",
        note="Kelvin.",
    ),
)

# --- flow, and the rest ------------------------------------------------------------------------

FLOW = Dataset(
    "navier-stokes",
    "vorticity of decaying turbulence, (x, y, t), t = 0.01 ... 1",
    (128, 128, 100),
    "regenerated",
    "own output; free to use",
    "recipe of SPINN's w_data.mat (CausalPINNs' data), run again",
    (
        File(
            "navier_stokes/ns_vorticity_128x128x100.npz",
            "a48f0f78bc5e757b82809f3345e53a132f07bd5237e58468ca1eb14f36b59219",
        ),
    ),
    prepare.flow,
    "Navier-Stokes, MAE; volume rendering",
    "float32. Periodic box of side 2π, viscosity 0.01, largest speed 5. Without the file our own "
    "solver makes the same flow, to 4e-5 of values up to 27.",
    periodic=(0, 1),
    make=navier_stokes.write,
)

EXTRAS = (
    Dataset(
        "speech",
        "3.4 s of read speech, 16 kHz",
        (54400,),
        "extra",
        "CC BY 4.0",
        "VOiCES corpus; GitHub pytorch/audio, examples/libtorchaudio/data/input.wav",
        (
            File(
                "audio/voices_speech_16k.wav",
                "c65fcd726d6b08c82c1e5dc7558f863cd8d483e3ed2f4a7bcf271dc1865ada14",
                f"{GITHUB}/pytorch/audio/68f551b83ccab806863961d393baee521dc974de"
                "/examples/libtorchaudio/data/input.wav",
            ),
        ),
        prepare.plain,
    ),
    Dataset(
        "dem",
        "elevation near Fort Worth, Texas",
        (359, 367),
        "extra",
        "repository GPL-3.0; elevation from a public source (HydroSHEDS/USGS)",
        "GitHub mdbartos/pysheds, data/dem.tif",
        (
            File(
                "dem/dem_fort_worth_359x367.tif",
                "b6ed6303945b0d85b59c314df8a265c91a85b9768dc70dff3c5df35970e49b6b",
                f"{GITHUB}/mdbartos/pysheds/b681384a284f6eb6f9ab446569cf15d5f51f0910/data/dem.tif",
            ),
        ),
        prepare.plain,
        note="Metres, every 3 arc seconds.",
    ),
    Dataset(
        "blue-marble",
        "the Earth, equirectangular",
        (2048, 4096, 3),
        "extra",
        "NASA imagery, public domain",
        "three-globe 2.45.2, example/img/earth-blue-marble.jpg",
        (
            File(
                "large_image/blue_marble_4096x2048.jpg",
                "228deba2e4b600146bdcb6cfa359b8ead6aacc2b1c13550a29cd82824cfa1c01",
                "https://cdn.jsdelivr.net/npm/three-globe@2.45.2/example/img/earth-blue-marble.jpg",
            ),
        ),
        prepare.plain,
        note="A JPEG: its blocks are in the data.",
        channel_axis=-1,
        periodic=(1,),
    ),
    Dataset(
        "sdo",
        "the Sun at 193 Å, 2013-06-24 17:31 UT",
        (4096, 4096),
        "extra",
        "NASA/SDO, AIA science team; public",
        "GitHub sunpy/sunpy, sunpy/data/test",
        (
            File(
                "large_image/sdo_aia193_20130624_4096.jp2",
                "7da6bbfd2c182277d64e9bb90014172c14d7e05183209287a953e3051d280be3",
                f"{GITHUB}/sunpy/sunpy/343707a36f404cf7574a41edcf424e60b1008e1e"
                "/sunpy/data/test/2013_06_24__17_31_30_84__SDO_AIA_AIA_193.jp2",
            ),
        ),
        prepare.plain,
    ),
)

CATALOGUE = {
    known.name: known
    for known in (
        *(_kodak(number, KODAK[number]) for number in KODAK if number < 20),
        _kodak(20, KODAK[20], 256),
        _kodak(20, KODAK[20], suffix="-512"),
        *(_kodak(number, KODAK[number]) for number in KODAK if number > 20),
        *CAMERAMAN,
        *MRI,
        *WORLDVIEW,
        *SENTINEL2,
        *WEATHER,
        FLOW,
        *EXTRAS,
    )
}
